"""An answer has a size, whatever a service sends: beyond it the turn ends in words, and memory stays what it was."""

import gzip

import pytest

from agent_kernel.errors import ModelError
from agent_kernel.models import answer_reading
from agent_kernel.models.answer_reading import MOST_PARTS
from agent_kernel.testing import call, calls
from agent_kernel.testing.wire.reply import Reply
from tests.core.models.model_apis import WireApi, any_api, each_api
from tests.core.models.model_fixtures import TURN, collect, connected
from tests.core.models.test_answer import read_turn
from tests.core.models.test_answer_faults import fault_of


@any_api
@pytest.mark.parametrize("status", [200, 401, 500])
async def test_a_packed_answer_is_not_asked_for_and_never_unpacked(api: WireApi, status: int) -> None:
    reply = Reply(body=gzip.compress(api.body(TURN)), status=status, headers={"Content-Encoding": "gzip"})
    async with connected(reply, api=api) as (server, model):
        with pytest.raises(ModelError, match="packed as 'gzip', which was not asked for"):
            await collect(model)
    assert server.requests[0].headers["accept-encoding"] == "identity"


@any_api
@pytest.mark.parametrize(
    ("status", "piece"),
    [(200, b": " + b"a" * 1_000_000 + b"\n\n"), (200, b"data: " + b"a" * 1_000_000), (401, b"a" * 10**6)],
)
async def test_an_answer_or_a_refusal_without_end_is_ended(api: WireApi, status: int, piece: bytes) -> None:
    reply = Reply(body=piece * 160, status=status)
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
