"""What is made of an answer's bytes, whatever way they are cut and whatever a server does to the format."""

import itertools
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_kernel.models.base import ModelItem, ModelTurn, ToolCallDelta
from agent_kernel.testing import call, calls, requested
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


@each_api
@pytest.mark.parametrize("finish", ["stop", "length", "content_filter"])
def test_the_reason_why_an_answer_ended_is_kept(api: WireApi, finish: str) -> None:
    turn = ModelTurn("Hi", finish_reason=finish)  # type: ignore[arg-type]
    assert read_turn(api, api.body(turn)).finish_reason == finish


@each_api
def test_arguments_keep_big_integers(api: WireApi) -> None:
    big = 2**70 + 1
    (one,) = read_turn(api, api.body(call("f", n=big))).tool_calls
    assert json.loads(one.arguments) == {"n": big}


@each_api
def test_malformed_arguments_of_a_finished_turn_reach_the_loop_as_they_are(api: WireApi) -> None:
    turn = ModelTurn("", tool_calls=(requested("f", '{"n": 1', call_id="c"),))
    assert read_turn(api, api.body(turn)).tool_calls == turn.tool_calls
