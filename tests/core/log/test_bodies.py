"""What the log stores is what it was given."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_kernel.log.bodies import pack, unpack


@given(st.text())
def test_every_body_comes_back_as_it_was(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        return
    assert unpack(pack(text)) == text


def test_a_small_event_takes_less_than_half_of_its_size() -> None:
    body = (
        '{"run_id":"run_0123456789abcdef0123456789abcdef","timestamp":"2026-11-20T14:02:09.123Z","type":"tool_start",'
        '"tool_call_id":"call_abc","tool_name":"run_python","tool_input":"{\\"code\\":\\"print(1)\\"}"}'
    )
    assert len(pack(body)) < len(body) / 2


def test_a_body_of_a_later_format_is_refused() -> None:
    with pytest.raises(ValueError, match="another version"):
        unpack(b"\x04abc")
