"""What is made of an answer's bytes, however they are cut, changed, damaged, packed or endless."""

import gzip
import itertools
import zlib
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_kernel.models import answer_reading, http
from agent_kernel.models.answer_reading import MOST_PARTS
from agent_kernel.models.base import ModelItem, ModelTurn, ToolCallDelta
from agent_kernel.models.service_faults import Fault, error_object_fault
from agent_kernel.testing import call, calls
from agent_kernel.testing.wire.reply import Reply
from tests.core.models.model_apis import RESPONSES, WireApi, each_api, said
from tests.core.models.model_fixtures import connected, error_of, turn_of

TURN = calls(
    call("run_python", call_id="call_1", code="print('naïve 🐧')\n"),
    call("read_file", call_id="call_2", path="données.csv"),
    text="Je regarde. 你好 🐧",
    reasoning="Zuerst prüfen.",
    usage=(11, 7),
)


def read(api: WireApi, body: bytes, cuts: list[int] | None = None) -> list[ModelItem]:
    reader = api.reader()
    items: list[ModelItem] = []
    edges = [0, *sorted(cuts or []), len(body)]
    for start, end in itertools.pairwise(edges):
        items += reader.feed(body[start:end])
    return items + reader.finish()


def read_turn(api: WireApi, body: bytes, cuts: list[int] | None = None) -> ModelTurn:
    return read(api, body, cuts)[-1]


@each_api
@settings(max_examples=60)
@given(data=st.data())
def test_any_chunking_of_the_same_bytes_gives_the_same_turn(api: WireApi, data: st.DataObject) -> None:
    ways = api.ways(TURN)
    body = ways[data.draw(st.sampled_from(sorted(ways)))].body
    cuts = data.draw(st.lists(st.integers(0, len(body)), max_size=40))
    items = read(api, body, cuts)
    assert isinstance(items[-1], ModelTurn)
    assert said(items[-1]) == TURN
    assert "".join(item.content for item in items if item.type == "text") == TURN.content
    assert "".join(item.content for item in items if item.type == "reasoning") == TURN.reasoning
    assert [item for item in items if item.type == "tool_call"] == [
        ToolCallDelta(0, "run_python", "call_1"),
        ToolCallDelta(1, "read_file", "call_2"),
    ]


def fault_of(api: WireApi, body: bytes) -> Fault:
    with pytest.raises(Fault) as caught:
        read(api, body)
    return caught.value


@each_api
@pytest.mark.parametrize("share", [0.02, 0.3, 0.7])
def test_an_answer_that_stops_anywhere_is_cut_off(api: WireApi, share: float) -> None:
    body = api.body(calls(call("f", code="x" * 50), text="Let me look at it."))
    assert fault_of(api, body[: int(len(body) * share)]).retry


@each_api
def test_half_arguments_are_never_a_call(api: WireApi) -> None:
    half = api.half_call("f", '{"a": 1')
    assert "in the middle of a call of f" in fault_of(api, api.event_stream(half, done=False)).detail
    assert "in the middle of a call of f" in fault_of(api, api.event_stream(half, done=True)).detail
    too_long = fault_of(api, api.event_stream([*half, *api.length_reached()]))
    assert "length limit" in too_long.detail
    assert not too_long.retry


@each_api
@pytest.mark.parametrize(("status", "retry"), [(500, True), (429, True), (400, False), (None, True)])
def test_an_error_in_the_stream_is_an_error(api: WireApi, status: int | None, retry: bool) -> None:
    fault = fault_of(api, api.broken("Hel", message="Something broke", status=status))
    assert (fault.status, fault.retry) == (status, retry)
    assert fault.detail == "Something broke"


INVALID = {"type": "invalid_request_error"}
ERRORS: dict[tuple[int | None, bool], list[Any]] = {
    (None, True): ["Something broke"],
    (None, False): [{"code": "content_filter"}],
    (400, False): [INVALID, {"code": "context_length_exceeded"}],
    (429, True): [{"code": "429"}, {"type": "rate_limit_error"}],
    (429, False): [{"code": "insufficient_quota"}],
    (529, True): [{"type": "overloaded_error"}],
}


@pytest.mark.parametrize(("known", "errors"), ERRORS.items())
def test_an_error_is_known_by_its_code_and_its_type(known: tuple[int | None, bool], errors: list[Any]) -> None:
    for error in errors:
        fault = error_object_fault(error if isinstance(error, str) else {"message": "Something broke", **error})
        assert (fault.status, fault.retry, fault.detail) == (*known, "Something broke"), error


NO_ANSWERS = {
    b"data: {nonsense\n\n": {"retry": True},
    b"data: 17\n\n": {"retry": True},
    b"\n<!doctype html><title>Sign in</title>": {"kind": "address"},
    b'{"status": "ok"}': {"kind": "address"},
    b"": {"detail": "the server sent no answer"},
}


@each_api
@pytest.mark.parametrize(("body", "fields"), NO_ANSWERS.items(), ids=map(repr, NO_ANSWERS))
def test_what_is_no_answer_is_a_fault(api: WireApi, body: bytes, fields: dict[str, Any]) -> None:
    fault = fault_of(api, body)
    assert {name: getattr(fault, name) for name in fields} == fields


@pytest.mark.parametrize(("packing", "pack"), [("gzip", gzip.compress), ("deflate", zlib.compress)])
async def test_a_packed_answer_is_not_asked_for_and_yet_read(packing: str, pack: Callable[[bytes], bytes]) -> None:
    reply = Reply(body=pack(RESPONSES.body(TURN)), headers={"Content-Encoding": packing}, split_every=7)
    async with connected(reply, api=RESPONSES) as (server, model):
        assert said(await turn_of(model)) == TURN
    assert server.requests[0].headers["accept-encoding"] == "identity"


ENDLESS = b"data: " + b"a" * 1_000_000
GZIP = {"Content-Encoding": "gzip"}


@pytest.mark.parametrize(
    ("reply", "says"),
    [
        (Reply(body=b"odd", headers={"Content-Encoding": "br"}), "packed as 'br', which was not asked for"),
        (Reply(body=b"odd", headers=GZIP, times=4), "incorrect header check"),
        (Reply(body=ENDLESS * 10), "single piece of more than"),
        (Reply(body=ENDLESS * 2, status=401), "longer than"),
        (Reply(body=gzip.compress(ENDLESS * 10), headers=GZIP), "single piece of more than"),
    ],
)
async def test_an_answer_that_can_not_be_unpacked_or_does_not_end_is_ended(reply: Reply, says: str) -> None:
    assert says in str(await error_of(reply))


async def test_small_pieces_without_end_are_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "MOST_BYTES", 10_000)
    assert "its answer does not end" in str(await error_of(Reply(body=RESPONSES.saying(*"a" * 200)), api=RESPONSES))


@each_api
def test_texts_and_arguments_without_end_are_ended(api: WireApi, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answer_reading, "MOST_CHARACTERS", 100_000)  # the doubles take long for millions
    for body in (
        api.saying(*["a" * 30_000] * 5),
        api.saying(*["a" * 1_000] * 101),
        api.body(calls(call("f", code="x" * 100_001))),
    ):
        assert "characters" in fault_of(api, body).detail


@each_api
def test_more_calls_than_anybody_looks_at_are_ended(api: WireApi) -> None:
    many = [call("f", call_id=f"c{number}") for number in range(MOST_PARTS + 1)]
    assert "parts" in fault_of(api, api.body(calls(*many))).detail
    assert len(read_turn(api, api.body(calls(*many[:300]))).tool_calls) == 300
