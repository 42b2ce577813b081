"""An answer has a size, whatever a service sends: beyond it the turn ends in words, and memory stays what it was."""

import gzip
import zlib
from collections.abc import Callable

import pytest

from agent_kernel.errors import ModelError
from agent_kernel.models import answer_reading
from agent_kernel.models.answer_reading import MOST_PARTS
from agent_kernel.testing import call, calls
from agent_kernel.testing.wire.reply import Reply
from tests.core.models.model_apis import WireApi, any_api, each_api, said
from tests.core.models.model_fixtures import TURN, collect, connected, turn_of
from tests.core.models.test_answer import read_turn
from tests.core.models.test_answer_faults import fault_of


@any_api
@pytest.mark.parametrize(("packing", "pack"), [("gzip", gzip.compress), ("deflate", zlib.compress)])
async def test_a_packed_answer_is_not_asked_for_and_yet_read(
    api: WireApi, packing: str, pack: Callable[[bytes], bytes]
) -> None:
    reply = Reply(body=pack(api.body(TURN)), headers={"Content-Encoding": packing}, split_every=7)
    async with connected(reply, api=api) as (server, model):
        assert said(await turn_of(model)) == TURN
    assert server.requests[0].headers["accept-encoding"] == "identity"


@any_api
@pytest.mark.parametrize(
    ("packing", "tries", "says"),
    [("br", 1, "packed as 'br', which was not asked for"), ("gzip", 4, "incorrect header check")],
)
async def test_a_packed_answer_that_can_not_be_read_is_an_error(
    api: WireApi, packing: str, tries: int, says: str
) -> None:
    reply = Reply(body=b"odd", headers={"Content-Encoding": packing})
    async with connected(*[reply] * tries, api=api) as (_, model):
        with pytest.raises(ModelError, match=says):
            await collect(model)


ENDLESS = b"data: " + b"a" * 1_000_000


@any_api
@pytest.mark.parametrize(
    "reply",
    [
        Reply(body=(b": " + b"a" * 1_000_000 + b"\n\n") * 160),
        Reply(body=ENDLESS * 160),
        Reply(body=ENDLESS * 2, status=401),
        Reply(body=gzip.compress(ENDLESS * 40), headers={"Content-Encoding": "gzip"}),
        Reply(body=gzip.compress(ENDLESS * 2), headers={"Content-Encoding": "gzip"}, status=401),
    ],
)
async def test_an_answer_or_a_refusal_without_end_is_ended(api: WireApi, reply: Reply) -> None:
    async with connected(reply, api=api) as (_, model):
        with pytest.raises(ModelError, match=r"does not end|single piece of more than|longer than"):
            await collect(model)


@pytest.fixture
def smaller(monkeypatch: pytest.MonkeyPatch) -> None:
    """The doubles take long for millions of characters."""
    monkeypatch.setattr(answer_reading, "MOST_CHARACTERS", 100_000)


@each_api
@pytest.mark.parametrize("pieces", [["a" * 30_000] * 5, ["a" * 1_000] * 101])
def test_a_text_without_end_is_ended(api: WireApi, pieces: list[str], smaller: None) -> None:
    assert "characters" in fault_of(api, api.saying(*pieces)).detail


@each_api
def test_arguments_without_end_are_ended(api: WireApi, smaller: None) -> None:
    assert "characters" in fault_of(api, api.body(calls(call("f", code="x" * 100_001)))).detail


@each_api
def test_more_calls_than_anybody_looks_at_are_ended(api: WireApi) -> None:
    many = calls(*(call("f", call_id=f"c{number}") for number in range(MOST_PARTS + 1)))
    assert "parts" in fault_of(api, api.body(many)).detail
    fewer = calls(*(call("f", call_id=f"c{number}") for number in range(300)))
    assert len(read_turn(api, api.body(fewer)).tool_calls) == 300
