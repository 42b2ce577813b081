"""What is made of an answer's bytes, whatever way they are cut and whatever a server does to the format."""

import itertools
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_kernel.models.base import ModelItem, ModelTurn, RequestedCall, TextDelta, TokenUsage, ToolCallDelta
from agent_kernel.models.chat import ChatReader
from agent_kernel.models.sse import EventReader
from agent_kernel.testing import call, calls, requested, say
from agent_kernel.testing.wire.chat import Chunk, chunks_of, delta, event_stream, plain, usage_chunk

TURN = calls(
    call("run_python", call_id="call_1", code="print('naïve 🐧')\n"),
    call("read_file", call_id="call_2", path="données.csv"),
    text="Je regarde. 你好 🐧",
    reasoning="Zuerst prüfen.",
    usage=(11, 7),
)


def read(body: bytes, cuts: list[int] | None = None) -> list[ModelItem]:
    reader = ChatReader()
    items: list[ModelItem] = []
    edges = [0, *sorted(cuts or []), len(body)]
    for start, end in itertools.pairwise(edges):
        items += reader.feed(body[start:end])
    return items + reader.finish()


def turn_from(*chunks: Chunk, **options: Any) -> ModelTurn:
    turn = read(event_stream(chunks, **options))[-1]
    assert isinstance(turn, ModelTurn)
    return turn


def calls_from(*pieces: Any, finish: str | None = "tool_calls") -> tuple[RequestedCall, ...]:
    """The calls of an answer, given the `tool_calls` list of each chunk."""
    return turn_from(*(delta(tool_calls=piece) for piece in pieces), delta(finish)).tool_calls


BODIES = {
    "lf": event_stream(chunks_of(TURN)),
    "crlf": event_stream(chunks_of(TURN), newline="\r\n"),
    "cr": event_stream(chunks_of(TURN), newline="\r"),
    "comments": event_stream(chunks_of(TURN), comments=True),
    "no done": event_stream(chunks_of(TURN), done=False),
    "bom": b"\xef\xbb\xbf" + event_stream(chunks_of(TURN)),
    "interleaved": event_stream(chunks_of(TURN, interleave=True)),
    "no indices": event_stream(chunks_of(TURN, indices=False)),
    "no space": event_stream(chunks_of(TURN)).replace(b"data: ", b"data:"),
    "no last blank line": event_stream(chunks_of(TURN)).rstrip(b"\n"),
    "other fields": event_stream(chunks_of(TURN)).replace(b"data: ", b"event: message\nid: 3\nretry: 5\ndata: "),
}


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES.keys())
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_any_chunking_of_the_same_bytes_gives_the_same_turn(body: bytes, data: st.DataObject) -> None:
    cuts = data.draw(st.lists(st.integers(0, len(body)), max_size=40))
    items = read(body, cuts)
    assert items[-1] == TURN
    assert "".join(item.content for item in items if item.type == "text") == TURN.content
    assert "".join(item.content for item in items if item.type == "reasoning") == TURN.reasoning
    assert [item for item in items if item.type == "tool_call"] == [
        ToolCallDelta(0, "run_python", "call_1"),
        ToolCallDelta(1, "read_file", "call_2"),
    ]


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES.keys())
def test_one_byte_at_a_time_gives_the_same_turn(body: bytes) -> None:
    assert read(body, list(range(len(body))))[-1] == TURN


@settings(max_examples=200, deadline=None)
@given(
    lines=st.lists(st.sampled_from(["data: a", "data:b", "data:", "data", ": c", "event: x", "", "", "id: 1"])),
    newline=st.sampled_from(["\n", "\r", "\r\n"]),
    cuts=st.lists(st.integers(0, 400), max_size=20),
)
def test_events_do_not_depend_on_where_the_network_cut_them(lines: list[str], newline: str, cuts: list[int]) -> None:
    body = "".join(line + newline for line in lines).encode()
    whole = EventReader()
    expected = whole.feed(body) + whole.finish()
    pieces = EventReader()
    edges = sorted({0, len(body), *(cut for cut in cuts if cut < len(body))})
    got = [event for start, end in itertools.pairwise(edges) for event in pieces.feed(body[start:end])]
    assert got + pieces.finish() == expected


def test_data_on_several_lines_is_one_event() -> None:
    reader = EventReader()
    assert reader.feed(b'data: {"a":\ndata: 1}\n\n') == [b'{"a":\n1}']


def test_text_of_one_read_is_one_delta() -> None:
    body = event_stream([delta(content="a"), delta(content="b"), delta(content="c"), delta("stop")])
    assert read(body)[:-1] == [TextDelta("abc")]


def test_order_of_reasoning_and_text_within_one_read_is_kept() -> None:
    chunks = [delta(reasoning="1"), delta(content="2"), delta(reasoning="3"), delta(content="4"), delta("stop")]
    assert [(item.type, item.content) for item in read(event_stream(chunks))[:-1] if item.type != "tool_call"] == [
        ("reasoning", "1"),
        ("text", "2"),
        ("reasoning", "3"),
        ("text", "4"),
    ]


def test_empty_choices_and_null_usage_are_passed_over() -> None:
    filter_results = {"choices": [], "prompt_filter_results": [{"prompt_index": 0}]}
    hello = {**delta(content="Hi"), "usage": None}
    turn = turn_from(filter_results, hello, delta("stop"), usage_chunk(5, 6), {"choices": None, "usage": None})
    assert turn == ModelTurn("Hi", usage=TokenUsage(5, 6))


def test_finish_reason_may_be_missing_when_the_server_says_it_is_done() -> None:
    assert turn_from(delta(content="Hi")).finish_reason == "stop"


@pytest.mark.parametrize(
    ("sent", "kept"),
    [("stop", "stop"), ("eos", "stop"), ("length", "length"), ("max_tokens", "length"), ("content_filter",) * 2],
)
def test_finish_reasons_of_all_servers_are_understood(sent: str, kept: str) -> None:
    assert turn_from(delta(content="Hi"), delta(sent)).finish_reason == kept


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_reasoning_is_kept_apart_under_either_name(field: str) -> None:
    turn = turn_from(delta(**{field: "Hm"}), delta(content="Yes"), delta("stop"))
    assert (turn.reasoning, turn.content) == ("Hm", "Yes")


def test_reasoning_under_both_names_is_not_doubled() -> None:
    assert turn_from(delta(reasoning_content="Hm", reasoning="Hm"), delta("stop")).reasoning == "Hm"


def test_content_as_a_list_of_parts_is_text_and_thinking() -> None:
    thinking = {"type": "thinking", "thinking": [{"type": "text", "text": "Hm"}]}
    turn = turn_from(delta(content=[thinking, {"type": "text", "text": "Yes"}]), delta("stop"))
    assert (turn.reasoning, turn.content) == ("Hm", "Yes")


def test_a_refusal_is_shown_as_the_answer() -> None:
    assert turn_from(delta(refusal="I can't."), delta("stop")).content == "I can't."


def test_half_an_emoji_does_not_end_the_answer() -> None:
    body = b'data: {"choices":[{"delta":{"content":"a\\ud83d"}}]}\n\ndata: [DONE]\n\n'
    turn = read(body)[-1]
    assert isinstance(turn, ModelTurn)
    turn.content.encode()
    assert turn.content.startswith("a")


def test_missing_ids_are_left_to_the_loop() -> None:
    body = event_stream(chunks_of(TURN, ids=False))
    turn = read(body)[-1]
    assert isinstance(turn, ModelTurn)
    assert [(one.id, one.name) for one in turn.tool_calls] == [("", "run_python"), ("", "read_file")]


def test_id_and_name_repeated_in_every_chunk_is_one_call() -> None:
    pieces = [
        [{"index": 0, "id": "c1", "function": {"name": "f", "arguments": part}}]
        for part in ("", '{"x', '": 1', "}", "")
    ]
    assert calls_from(*pieces) == (RequestedCall("c1", "f", '{"x": 1}'),)


def test_a_new_id_in_every_chunk_is_one_call() -> None:
    first = [{"index": 0, "id": "c0", "function": {"name": "f", "arguments": '{"x'}}]
    rest = [[{"index": 0, "id": f"c{n}", "function": {"arguments": part}}] for n, part in enumerate(('": 1', "}"), 1)]
    assert calls_from(first, *rest) == (RequestedCall("c0", "f", '{"x": 1}'),)


def test_index_zero_for_every_call_is_several_calls() -> None:
    """Ollama, issue 15457."""
    first = [{"index": 0, "id": "c1", "function": {"name": "write", "arguments": '{"p": 1}'}}]
    second = [{"index": 0, "id": "c2", "function": {"name": "write", "arguments": '{"p": 2}'}}]
    assert [one.arguments for one in calls_from(first, second)] == ['{"p": 1}', '{"p": 2}']
    both_at_once = calls_from([*first, *second])
    assert [(one.id, one.arguments) for one in both_at_once] == [("c1", '{"p": 1}'), ("c2", '{"p": 2}')]


def test_whole_calls_without_index_are_several_calls() -> None:
    """Gemini, and Ollama before 0.4.7."""
    one = {"id": "c1", "function": {"name": "f", "arguments": '{"p": 1}'}}
    two = {"id": "c2", "function": {"name": "f", "arguments": '{"p": 2}'}}
    for got in (calls_from([one, two]), calls_from([one], [two])):
        assert [(call.id, call.arguments) for call in got] == [("c1", '{"p": 1}'), ("c2", '{"p": 2}')]


def test_whole_calls_without_index_and_id_are_several_calls() -> None:
    pieces = [{"function": {"name": "f", "arguments": f'{{"p": {n}}}'}} for n in (1, 2)]
    for got in (calls_from(pieces), calls_from(pieces[:1], pieces[1:])):
        assert [call.arguments for call in got] == ['{"p": 1}', '{"p": 2}']


def test_pieces_without_index_go_to_the_call_at_their_position() -> None:
    start = [{"function": {"name": "f", "arguments": '{"p'}}, {"function": {"name": "g", "arguments": '{"q'}}]
    rest = [{"function": {"arguments": '": 1}'}}, {"function": {"arguments": '": 2}'}}]
    assert [(one.name, one.arguments) for one in calls_from(start, rest)] == [("f", '{"p": 1}'), ("g", '{"q": 2}')]


def test_pieces_without_index_but_with_id_go_to_that_call() -> None:
    start = [[{"id": name, "function": {"name": name, "arguments": '{"p'}}] for name in ("f", "g")]
    rest = [[{"id": name, "function": {"arguments": f'": "{name}"}}'}}] for name in ("f", "g")]
    assert [one.arguments for one in calls_from(*start, *rest)] == ['{"p": "f"}', '{"p": "g"}']


def test_a_name_that_comes_in_pieces_is_joined() -> None:
    pieces = [[{"index": 0, "id": "c", "function": {"name": part}}] for part in ("run_", "python")]
    assert calls_from(*pieces, [{"index": 0, "function": {"arguments": "{}"}}])[0].name == "run_python"


def test_arguments_as_an_object_keep_big_integers() -> None:
    big = 2**70 + 1
    got = calls_from([{"index": 0, "id": "c", "function": {"name": "f", "arguments": {"n": big}}}])
    assert json.loads(got[0].arguments) == {"n": big}


def test_parameters_stand_in_for_arguments() -> None:
    got = calls_from([{"index": 0, "id": "c", "function": {"name": "f", "parameters": {"n": 1}}}])
    assert got == (RequestedCall("c", "f", '{"n": 1}'),)


def test_fields_beside_function_are_understood() -> None:
    assert calls_from([{"id": "c", "name": "f", "arguments": '{"n": 1}'}]) == (RequestedCall("c", "f", '{"n": 1}'),)


def test_no_arguments_at_all_are_an_empty_object() -> None:
    assert calls_from([{"index": 0, "id": "c", "function": {"name": "f", "arguments": ""}}])[0].arguments == "{}"
    assert calls_from([{"index": 0, "id": "c", "function": {"name": "f", "arguments": None}}])[0].arguments == "{}"


def test_the_old_function_call_is_a_call() -> None:
    pieces = [{"name": "f", "arguments": ""}, {"arguments": '{"n"'}, {"arguments": ": 1}"}]
    turn = turn_from(*(delta(function_call=piece) for piece in pieces), delta("function_call"))
    assert turn.tool_calls == (RequestedCall("", "f", '{"n": 1}'),)


def test_malformed_arguments_of_a_finished_turn_reach_the_loop_as_they_are() -> None:
    got = calls_from([{"index": 0, "id": "c", "function": {"name": "f", "arguments": '{"n": 1'}}])
    assert got[0].arguments == '{"n": 1'


def test_a_plain_json_body_is_a_whole_turn() -> None:
    turn = calls(call("f", call_id="c", x=1), text="Hi", usage=(3, 4))
    reply = plain(turn)
    for cuts in ([], [0, 1, 9, 40]):
        items = read(b"  \n" + reply.body, cuts)
        assert items[-1] == turn
        assert items[0] == TextDelta("Hi")


def test_helpers_write_what_they_say() -> None:
    assert requested("f", "{half").arguments == "{half"
    assert say("Hi", usage=(1, 2)).usage == TokenUsage(1, 2)
