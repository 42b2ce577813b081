"""What is made of an answer of the Messages API, whatever way it is cut and whatever a server does to it."""

import itertools
import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from agent_kernel.models.anthropic_answer import MessagesReader
from agent_kernel.models.base import ModelItem, ModelTurn, TokenUsage, ToolCallDelta
from agent_kernel.models.provider_items import CallItem, OpaqueItem, ProviderItems, TextItem
from agent_kernel.models.service_faults import Fault
from agent_kernel.testing import call, calls
from agent_kernel.testing.wire.messages import (
    END,
    SIGNED,
    Event,
    block_start,
    block_stop,
    delta,
    error,
    events_of,
    plain,
    start,
    stop,
)
from agent_kernel.testing.wire.reply import event_stream

ORIGIN = "http://here claude"
THOUGHT = {"type": "thinking", "thinking": "Zuerst prüfen.", "signature": SIGNED}
HIDDEN = {"type": "redacted_thinking", "data": "ZW5jcnlwdGVk"}
TURN = replace(
    calls(
        call("run_python", call_id="toolu_1", code="print('naïve 🐧')\n"),
        call("read_file", call_id="toolu_2", path="données.csv"),
        text="Je regarde. 你好 🐧",
        reasoning="Zuerst prüfen.",
    ),
    usage=TokenUsage(110, 7, cached_tokens=50, cache_write_tokens=49, reasoning_tokens=3),
    provider=ProviderItems(
        "messages", ORIGIN, (OpaqueItem(THOUGHT), OpaqueItem(HIDDEN), TextItem(16), CallItem(0), CallItem(1))
    ),
)


def read(body: bytes, cuts: list[int] | None = None) -> list[ModelItem]:
    reader = MessagesReader(ORIGIN)
    items: list[ModelItem] = []
    edges = [0, *sorted(cuts or []), len(body)]
    for begin, end in itertools.pairwise(edges):
        items += reader.feed(body[begin:end])
    return items + reader.finish()


def turn_from(*sent: Event) -> ModelTurn:
    turn = read(event_stream([start(), *sent]))[-1]
    assert isinstance(turn, ModelTurn)
    return turn


def fault_of(*sent: Event) -> Fault:
    with pytest.raises(Fault) as caught:
        read(event_stream(sent))
    return caught.value


def text(index: int, *pieces: str) -> list[Event]:
    sent = [delta(index, "text_delta", text=piece) for piece in pieces]
    return [block_start(index, type="text", text=""), *sent, block_stop(index)]


def a_call(index: int, *pieces: str, name: str = "f", given: Any = None, ended: bool = True) -> list[Event]:
    begin = block_start(index, type="tool_use", id=f"toolu_{index}", name=name, input={} if given is None else given)
    sent = [delta(index, "input_json_delta", partial_json=piece) for piece in pieces]
    return [begin, *sent, *([block_stop(index)] if ended else [])]


BODIES = {
    "as it should be": event_stream(events_of(TURN)),
    "in turns": event_stream(events_of(TURN, interleave=True)),
    "no end": event_stream(events_of(TURN)[:-1]),
    "done": event_stream(events_of(TURN)[:-1]) + b"data: [DONE]\n\n",
    "not streamed": plain(TURN).body,
}


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES.keys())
@settings(max_examples=40)
@given(data=st.data())
def test_any_chunking_of_the_same_bytes_gives_the_same_turn(body: bytes, data: st.DataObject) -> None:
    items = read(body, data.draw(st.lists(st.integers(0, len(body)), max_size=40)))
    counted = TURN.usage if b"thinking_tokens" in body else replace(TURN.usage, reasoning_tokens=0)
    assert items[-1] == replace(TURN, usage=counted)
    assert "".join(item.content for item in items if item.type == "text") == TURN.content
    assert "".join(item.content for item in items if item.type == "reasoning") == TURN.reasoning
    assert [item for item in items if item.type == "tool_call"] == [
        ToolCallDelta(0, "run_python", "toolu_1"),
        ToolCallDelta(1, "read_file", "toolu_2"),
    ]


def test_the_order_of_an_answer_is_kept_where_it_is_not_text_then_calls() -> None:
    turn = turn_from(*text(0, "One."), *a_call(1, "{}"), *text(2, "Two."), *a_call(3, "{}"), stop("tool_use"), END)
    assert turn.provider == ProviderItems("messages", ORIGIN, (TextItem(4), CallItem(0), TextItem(4), CallItem(1)))
    assert turn.content == "One.Two."


def test_an_answer_of_text_and_calls_is_not_kept_twice() -> None:
    assert turn_from(*text(0, "One."), *a_call(1, "{}"), stop("tool_use"), END).provider is None
    assert turn_from(*text(0, "One."), stop(), END).provider is None


def test_several_thoughts_are_shown_as_paragraphs() -> None:
    first = [block_start(0, type="thinking", thinking="", signature=""), delta(0, "thinking_delta", thinking="A")]
    signed = [delta(0, "signature_delta", signature="x"), delta(0, "signature_delta", signature="y"), block_stop(0)]
    second = [block_start(1, type="thinking", thinking="B", signature="z"), block_stop(1)]
    silent = [block_start(2, type="thinking", thinking="", signature="s"), block_stop(2)]
    turn = turn_from(*first, *signed, *second, *silent, *text(3, "C"), stop(), END)
    assert turn.reasoning == "A\n\nB"
    assert turn.provider is not None
    assert [item.item["signature"] for item in turn.provider.items if isinstance(item, OpaqueItem)] == ["xy", "z", "s"]


def test_thinking_without_a_signature_is_shown_and_not_kept() -> None:
    turn = turn_from(block_start(0, type="thinking", thinking="Hm"), block_stop(0), *text(1, "Yes"), stop(), END)
    assert (turn.reasoning, turn.content, turn.provider) == ("Hm", "Yes", None)


def test_citations_and_new_kinds_of_pieces_are_passed_over() -> None:
    cited = delta(0, "citations_delta", citation={"type": "char_location"})
    sent = [block_start(0, type="text", text="Hi"), cited, delta(0, "mood_delta", mood=1), block_stop(0)]
    assert turn_from(*sent, stop(), END).content == "Hi"


def test_big_integers_and_odd_characters_in_arguments_stay_as_they_are() -> None:
    raw = '{"n": 1180591620717411303425, "t": "\\ud83d\\udc27é"}'
    assert turn_from(*a_call(0, *raw), stop("tool_use"), END).tool_calls[0].arguments == raw
    given = {"n": 2**70 + 1, "t": "é"}
    for turn in (
        turn_from(*a_call(0, given=given), stop("tool_use"), END),
        read(plain(call("f", **given)).body)[-1],
    ):
        assert isinstance(turn, ModelTurn)
        assert json.loads(turn.tool_calls[0].arguments) == given


def test_counters_add_up_and_never_shrink() -> None:
    first = start(TokenUsage(100, 1, cached_tokens=60, cache_write_tokens=30))
    last = {**stop(), "usage": {"input_tokens": 0, "output_tokens": 25, "cache_read_input_tokens": None}}
    turn = read(event_stream([first, *text(0, "Hi"), {**last, "usage": {"output_tokens": 9}}, last, END]))[-1]
    assert isinstance(turn, ModelTurn)
    assert turn.usage == TokenUsage(100, 25, cached_tokens=60, cache_write_tokens=30)


@pytest.mark.parametrize("absurd", [-1, True, "812", 10**12, 1.5, {}])
@pytest.mark.parametrize("counter", ["input_tokens", "cache_read_input_tokens", "output_tokens"])
def test_a_counter_that_is_none_counts_as_not_reported(counter: str, absurd: Any) -> None:
    first = start(TokenUsage(10, 1))
    last = {**stop(), "usage": {"output_tokens": 9, counter: absurd}}
    turn = read(event_stream([first, *text(0, "Hi"), last, {**stop(), "usage": {"output_tokens": 12}}, END]))[-1]
    assert turn.content == "Hi"
    assert turn.usage == TokenUsage()


@pytest.mark.parametrize(
    ("sent", "kept"),
    [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("something_new", "stop"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("refusal", "content_filter"),
    ],
)
def test_stop_reasons_are_understood(sent: str, kept: str) -> None:
    assert turn_from(*text(0, "Hi"), stop(sent), END).finish_reason == kept


def test_a_refusal_is_told_with_its_reason_and_runs_nothing() -> None:
    why = {"type": "refusal", "category": "cyber", "explanation": "This may help an attack."}
    items = read(event_stream([start(), *text(0, "Well"), *a_call(1, '{"a'), stop("refusal", stop_details=why), END]))
    assert isinstance(items[-1], ModelTurn)
    assert items[-1].tool_calls == ()
    assert items[-1].failure.startswith("The model's service refused: This may help an attack. ")
    assert turn_from(stop("refusal"), END).failure.startswith("The model's service refused to answer. ")


def test_a_whole_call_before_the_length_limit_is_a_call() -> None:
    turn = turn_from(*a_call(0, '{"a": 1}'), *text(1, "And th"), stop("max_tokens"), END)
    assert (turn.tool_calls[0].arguments, turn.finish_reason) == ('{"a": 1}', "length")


@pytest.mark.parametrize(
    ("kind", "status", "retry"),
    [
        ("overloaded_error", 529, True),
        ("rate_limit_error", 429, True),
        ("api_error", 500, True),
        ("timeout_error", 504, True),
        ("invalid_request_error", 400, False),
        ("authentication_error", 401, False),
        ("something_new", None, True),
    ],
)
def test_an_error_within_the_stream_is_an_error(kind: str, status: int | None, retry: bool) -> None:
    fault = fault_of(start(), *text(0, "Hel"), error(kind, "Not now"))
    assert (fault.status, fault.retry, fault.detail, fault.code) == (status, retry, "Not now", kind)


def test_an_error_in_place_of_an_answer_is_an_error() -> None:
    with pytest.raises(Fault, match="Overloaded") as caught:
        read(json.dumps(error("overloaded_error", "Overloaded")).encode())
    assert caught.value.status == 529


def test_an_answer_that_says_nothing_is_an_answer() -> None:
    assert turn_from(stop(), END) == ModelTurn("")


def test_pieces_of_a_call_that_never_began_are_an_error() -> None:
    assert fault_of(start(), delta(3, "input_json_delta", partial_json="{}")).retry


def test_text_that_never_began_is_text() -> None:
    assert turn_from(delta(0, "text_delta", text="Hi"), stop(), END).content == "Hi"


@pytest.mark.parametrize(
    "body",
    [
        b"\n<!doctype html><title>Sign in</title>",
        b'{"status": "ok"}',
        b'data: {"id": "chatcmpl-1", "choices": [{"delta": {"content": "Hi"}}]}\n\n',
        b'{"id": "chatcmpl-1", "choices": [{"message": {"content": "Hi"}}]}',
    ],
)
def test_another_format_means_a_wrong_address(body: bytes) -> None:
    with pytest.raises(Fault) as caught:
        read(body)
    assert caught.value.kind == "address"


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
kinds = st.sampled_from([event["type"] for event in events_of(TURN)] + ["message", "error"])
BLOCKS = ["text", "thinking", "redacted_thinking", "tool_use", "server_tool_use"]
PIECES = ["text_delta", "thinking_delta", "input_json_delta", "signature_delta"]
block_kinds = st.sampled_from([*BLOCKS, *PIECES])
inner_fields = st.sampled_from(
    ["text", "thinking", "signature", "partial_json", "id", "name", "input", "stop_reason", "stop_details", "usage"]
)
inners = st.builds(
    lambda kind, fields: {**fields, **kind},
    st.fixed_dictionaries({}, optional={"type": block_kinds | json_values}),
    st.dictionaries(inner_fields, json_values, max_size=4),
)
shapes = st.fixed_dictionaries(
    {"type": kinds},
    optional={
        "index": st.integers(0, 2) | json_values,
        "content_block": inners | json_values,
        "delta": inners | json_values,
        "message": inners | json_values,
        "usage": json_values,
        "content": st.lists(inners) | json_values,
        "error": json_values,
    },
)


@settings(max_examples=150)
@example([{"type": "message_delta", "delta": {"stop_reason": [None]}}])
@given(st.lists(shapes | json_values, max_size=6))
def test_no_shape_of_an_event_raises_anything_but_a_fault(events: list[Any]) -> None:
    try:
        items = read(event_stream(events))
    except Fault:
        return
    turn = items[-1]
    assert isinstance(turn, ModelTurn)
    assert isinstance(turn.content + turn.reasoning + "".join(one.name + one.arguments for one in turn.tool_calls), str)
    json.dumps(turn.provider.to_wire() if turn.provider else None)
