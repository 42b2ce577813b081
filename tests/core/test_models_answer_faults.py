"""Answers of a model that are cut off, empty, or nonsense: each is a fault in words, and never half a call."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_kernel.models.base import ModelTurn
from agent_kernel.models.faults import Fault
from agent_kernel.testing import call, calls
from agent_kernel.testing.wire.chat import chunks_of, delta, event_stream
from tests.core.test_models_answer import read

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
fields = st.sampled_from(
    ["content", "reasoning", "tool_calls", "function_call", "refusal", "index", "id", "function", "name", "arguments"]
)
deltas = st.dictionaries(
    fields, json_values | st.dictionaries(fields, json_values) | st.lists(st.dictionaries(fields, json_values))
)
choices = st.fixed_dictionaries({}, optional={"delta": deltas | json_values, "finish_reason": json_values})
shapes = st.fixed_dictionaries(
    {}, optional={"choices": st.lists(choices) | json_values, "usage": json_values, "error": json_values}
)


def faults_of(body: bytes) -> Fault:
    with pytest.raises(Fault) as caught:
        read(body)
    return caught.value


@pytest.mark.parametrize("length", [40, 120, 400, 700, 900])
def test_an_answer_that_stops_anywhere_is_cut_off(length: int) -> None:
    body = event_stream(chunks_of(calls(call("f", code="x" * 50), text="Let me look at it.")), done=False)
    assert length < len(body) - 160  # before the finish reason
    fault = faults_of(body[:length])
    assert fault.retry


def test_half_arguments_are_never_a_call() -> None:
    half = [delta(tool_calls=[{"index": 0, "id": "c", "function": {"name": "f", "arguments": '{"a": 1'}}])]
    assert "in the middle of a call of f" in faults_of(event_stream(half, done=False)).detail
    assert "in the middle of a call of f" in faults_of(event_stream(half, done=True)).detail
    too_long = faults_of(event_stream([*half, delta("length")]))
    assert "length limit" in too_long.detail
    assert not too_long.retry


@pytest.mark.parametrize(
    ("error", "status", "retry"),
    [
        ({"message": "Overloaded", "code": 503}, 503, True),
        ({"message": "Slow down", "code": "429"}, 429, True),
        ({"message": "Bad", "type": "invalid_request_error", "code": None}, 400, False),
        ({"message": "Something broke"}, None, True),
        ("Something broke", None, True),
    ],
)
def test_an_error_object_in_the_stream_is_an_error(error: object, status: int | None, retry: bool) -> None:
    fault = faults_of(event_stream([delta(content="Hel"), {"error": error}]))
    assert (fault.status, fault.retry) == (status, retry)
    assert fault.detail in ("Overloaded", "Slow down", "Bad", "Something broke")


@pytest.mark.parametrize("body", [b"", b"\n\n: keep-alive\n\n", b"data: [DONE]\n\n"])
def test_an_empty_answer_is_an_error(body: bytes) -> None:
    assert faults_of(body).detail == "the server sent no answer"


@pytest.mark.parametrize("body", [b"data: {nonsense\n\n", b"data: 17\n\n", b"data: \xff\xfe\n\n"])
def test_garbage_in_the_stream_is_an_error(body: bytes) -> None:
    assert faults_of(body).retry


@settings(max_examples=400, deadline=None)
@given(st.lists(shapes | json_values, max_size=4))
def test_no_shape_of_an_event_raises_anything_but_a_fault(events: list[Any]) -> None:
    try:
        items = read(event_stream(events))
    except Fault:
        return
    turn = items[-1]
    assert isinstance(turn, ModelTurn)
    assert isinstance(turn.content + turn.reasoning + "".join(one.name + one.arguments for one in turn.tool_calls), str)


def test_a_web_page_means_a_wrong_address() -> None:
    assert faults_of(b"\n<!doctype html><title>Sign in</title>").kind == "address"
    assert faults_of(b'{"status": "ok"}').kind == "address"
