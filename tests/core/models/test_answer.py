"""What is made of an answer's bytes, whatever way they are cut and whatever a server does to the format."""

import itertools
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_kernel.models.base import ModelItem, ModelTurn, TextDelta, TokenUsage, ToolCallDelta
from agent_kernel.testing import call, calls, requested, say
from tests.core.models.model_apis import WireApi, each_api, said

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
    turn = read(api, body, cuts)[-1]
    assert isinstance(turn, ModelTurn)
    return turn


@each_api
@settings(max_examples=100)
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


@each_api
def test_each_event_that_the_double_sends_is_one_of_the_official_clients(api: WireApi) -> None:
    for events in (api.events_of(TURN), api.interleaved(TURN), api.events_of(say("Hi"))):
        for event in events:
            api.check_event(event)


@each_api
def test_tokens_are_counted(api: WireApi) -> None:
    assert read_turn(api, api.body(say("Hi", usage=(5, 6)))).usage == TokenUsage(5, 6)


@each_api
def test_text_of_one_read_is_one_delta(api: WireApi) -> None:
    assert read(api, api.saying("a", "b", "c"))[:-1] == [TextDelta("abc")]


@each_api
@pytest.mark.parametrize("finish", ["stop", "length", "content_filter"])
def test_the_reason_why_an_answer_ended_is_kept(api: WireApi, finish: str) -> None:
    turn = ModelTurn("Hi", finish_reason=finish)  # type: ignore[arg-type]
    assert read_turn(api, api.body(turn)).finish_reason == finish


@each_api
def test_half_an_emoji_does_not_end_the_answer(api: WireApi) -> None:
    turn = read_turn(api, api.saying("a", "HALF").replace(b"HALF", b"\\ud83d"))
    turn.content.encode()
    assert turn.content.startswith("a")


@each_api
def test_a_plain_json_body_is_a_whole_turn(api: WireApi) -> None:
    turn = calls(call("f", call_id="c", x=1), text="Hi", usage=(3, 4))
    reply = api.plain(turn)
    for cuts in ([], [0, 1, 9, 40]):
        items = read(api, b"  \n" + reply.body, cuts)
        assert items[-1] == turn
        assert items[0] == TextDelta("Hi")


@each_api
def test_arguments_keep_big_integers(api: WireApi) -> None:
    big = 2**70 + 1
    (one,) = read_turn(api, api.body(call("f", n=big))).tool_calls
    assert json.loads(one.arguments) == {"n": big}


@each_api
def test_malformed_arguments_of_a_finished_turn_reach_the_loop_as_they_are(api: WireApi) -> None:
    turn = ModelTurn("", tool_calls=(requested("f", '{"n": 1', call_id="c"),))
    assert read_turn(api, api.body(turn)).tool_calls == turn.tool_calls


@each_api
def test_no_arguments_at_all_are_an_empty_object(api: WireApi) -> None:
    turn = ModelTurn("", tool_calls=(requested("f", "", call_id="c"),))
    assert read_turn(api, api.body(turn)).tool_calls[0].arguments == "{}"
