"""What is made of an answer of the Messages API, whatever way it is cut and whatever a server does to it."""

import json
from typing import Any

import pytest

from agent_kernel.models.anthropic_answer import MessagesReader
from agent_kernel.models.base import ModelItem, ModelTurn, TokenUsage
from agent_kernel.models.provider_items import CallItem, OpaqueItem, ProviderItems, TextItem
from agent_kernel.models.service_faults import Fault
from agent_kernel.testing import call
from agent_kernel.testing.wire.messages import (
    END,
    Event,
    block_start,
    block_stop,
    delta,
    plain,
    start,
    stop,
)
from agent_kernel.testing.wire.reply import event_stream

ORIGIN = "http://here claude"


def read(body: bytes) -> list[ModelItem]:
    reader = MessagesReader(ORIGIN)
    return [*reader.feed(body), *reader.finish()]


def turn_from(*sent: Event) -> ModelTurn:
    turn = read(event_stream([start(), *sent]))[-1]
    assert isinstance(turn, ModelTurn)
    return turn


def text(index: int, *pieces: str) -> list[Event]:
    sent = [delta(index, "text_delta", text=piece) for piece in pieces]
    return [block_start(index, type="text", text=""), *sent, block_stop(index)]


def a_call(index: int, *pieces: str, name: str = "f", given: Any = None, ended: bool = True) -> list[Event]:
    begin = block_start(index, type="tool_use", id=f"toolu_{index}", name=name, input={} if given is None else given)
    sent = [delta(index, "input_json_delta", partial_json=piece) for piece in pieces]
    return [begin, *sent, *([block_stop(index)] if ended else [])]


def test_the_order_of_an_answer_is_kept_where_it_is_not_text_then_calls() -> None:
    turn = turn_from(*text(0, "One."), *a_call(1, "{}"), *text(2, "Two."), *a_call(3, "{}"), stop("tool_use"), END)
    assert turn.provider == ProviderItems("messages", ORIGIN, (TextItem(4), CallItem(0), TextItem(4), CallItem(1)))
    assert turn.content == "One.Two."


def test_several_thoughts_are_shown_as_paragraphs() -> None:
    first = [block_start(0, type="thinking", thinking="", signature=""), delta(0, "thinking_delta", thinking="A")]
    signed = [delta(0, "signature_delta", signature="x"), delta(0, "signature_delta", signature="y"), block_stop(0)]
    second = [block_start(1, type="thinking", thinking="B", signature="z"), block_stop(1)]
    silent = [block_start(2, type="thinking", thinking="", signature="s"), block_stop(2)]
    turn = turn_from(*first, *signed, *second, *silent, *text(3, "C"), stop(), END)
    assert turn.reasoning == "A\n\nB"
    assert turn.provider is not None
    assert [item.item["signature"] for item in turn.provider.items if isinstance(item, OpaqueItem)] == ["xy", "z", "s"]


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


def test_half_an_emoji_in_whole_arguments_cuts_nothing_off() -> None:
    raw = '{"t": "\\ud83d"}'
    assert turn_from(*a_call(0, raw, ended=False), stop("max_tokens"), END).tool_calls[0].arguments == raw
    with pytest.raises(Fault, match="length limit in the middle of a call of f"):
        turn_from(*a_call(0, raw[:-1]), stop("max_tokens"), END)


def test_counters_add_up_and_never_shrink() -> None:
    first = start(TokenUsage(100, 1, cached_tokens=60, cache_write_tokens=30))
    last = {**stop(), "usage": {"input_tokens": 0, "output_tokens": 25, "cache_read_input_tokens": None}}
    turn = read(event_stream([first, *text(0, "Hi"), {**last, "usage": {"output_tokens": 9}}, last, END]))[-1]
    assert isinstance(turn, ModelTurn)
    assert turn.usage == TokenUsage(100, 25, cached_tokens=60, cache_write_tokens=30)


def test_a_refusal_is_told_with_its_reason_and_runs_nothing() -> None:
    why = {"type": "refusal", "category": "cyber", "explanation": "This may help an attack."}
    items = read(event_stream([start(), *text(0, "Well"), *a_call(1, '{"a'), stop("refusal", stop_details=why), END]))
    assert isinstance(items[-1], ModelTurn)
    assert items[-1].tool_calls == ()
    assert items[-1].failure.startswith("The model's service refused: This may help an attack. ")
    assert turn_from(stop("refusal"), END).failure.startswith("The model's service refused to answer. ")
