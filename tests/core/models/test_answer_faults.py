"""Answers of a model that are cut off, empty, or nonsense: each is a fault in words, and never half a call."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_kernel.models.base import ModelTurn
from agent_kernel.models.service_faults import Fault
from agent_kernel.testing import call, calls
from agent_kernel.testing.wire import reply
from agent_kernel.testing.wire.chat import event_stream
from tests.core.models.model_apis import CHAT, RESPONSES, WireApi, each_api
from tests.core.models.test_answer import read

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


def fault_of(api: WireApi, body: bytes) -> Fault:
    with pytest.raises(Fault) as caught:
        read(api, body)
    return caught.value


@each_api
@pytest.mark.parametrize("share", [0.02, 0.1, 0.3, 0.5, 0.7])
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


@each_api
@pytest.mark.parametrize("body", [b"", b"\n\n: keep-alive\n\n", b"data: [DONE]\n\n"])
def test_an_empty_answer_is_an_error(api: WireApi, body: bytes) -> None:
    assert fault_of(api, body).detail == "the server sent no answer"


@each_api
@pytest.mark.parametrize("body", [b"data: {nonsense\n\n", b"data: 17\n\n", b"data: \xff\xfe\n\n"])
def test_garbage_in_the_stream_is_an_error(api: WireApi, body: bytes) -> None:
    assert fault_of(api, body).retry


@each_api
def test_a_web_page_means_a_wrong_address(api: WireApi) -> None:
    assert fault_of(api, b"\n<!doctype html><title>Sign in</title>").kind == "address"
    assert fault_of(api, b'{"status": "ok"}').kind == "address"


@settings(max_examples=100)
@given(st.lists(shapes | json_values, max_size=4))
def test_no_shape_of_an_event_raises_anything_but_a_fault(events: list[Any]) -> None:
    try:
        items = read(CHAT, event_stream(events))
    except Fault:
        return
    turn = items[-1]
    assert isinstance(turn, ModelTurn)
    assert isinstance(turn.content + turn.reasoning + "".join(one.name + one.arguments for one in turn.tool_calls), str)


parts = st.dictionaries(st.sampled_from(["type", "text", "refusal", "annotations"]), json_values | st.just("Hm"))
typed_parts = st.builds(
    lambda kind, text: {"type": kind, "text": text, "annotations": []},
    st.sampled_from(["output_text", "summary_text", "reasoning_text"]),
    st.text(max_size=3),
)
item_values = {
    "id": json_values | st.text(max_size=3),
    "status": json_values | st.sampled_from(["completed", "incomplete"]),
    "call_id": json_values,
    "name": json_values,
    "arguments": json_values,
    "content": json_values | st.lists(parts | typed_parts, max_size=3),
    "summary": json_values | st.lists(parts | typed_parts, max_size=3),
    "encrypted_content": json_values | st.text(max_size=3),
}
ITEM_FIELDS = {
    "message": ("id", "status", "content"),
    "reasoning": ("id", "summary", "content", "encrypted_content"),
    "function_call": ("id", "status", "call_id", "name", "arguments"),
}
typed_items = st.sampled_from(list(ITEM_FIELDS)).flatmap(
    lambda kind: st.fixed_dictionaries(
        {"type": st.just(kind)}, optional={field: item_values[field] for field in ITEM_FIELDS[kind]}
    )
)
whole = {"output": st.lists(typed_items | json_values), "status": json_values, "usage": json_values}
KINDS = (
    "created completed incomplete failed output_item.added output_item.done output_text.delta output_text.done "
    "refusal.delta reasoning_summary_text.delta reasoning_text.delta function_call_arguments.delta "
    "function_call_arguments.done"
)
event_fields = {
    "item": typed_items | json_values,
    "output_index": json_values | st.integers(0, 2),
    "item_id": json_values,
    "content_index": json_values,
    "delta": json_values | st.text(max_size=3),
    "text": json_values,
    "arguments": json_values,
    "sequence_number": json_values,
    "response": json_values | st.fixed_dictionaries({}, optional=whole),
}
RESPONSES_EVENTS = st.builds(
    lambda kind, event: {**event, "type": kind},
    st.sampled_from(["error", *(f"response.{kind}" for kind in KINDS.split())]),
    st.fixed_dictionaries({}, optional=event_fields),
)


@settings(max_examples=200)
@given(st.lists(RESPONSES_EVENTS | json_values, max_size=6))
def test_no_event_of_the_responses_api_raises_anything_but_a_fault(events: list[Any]) -> None:
    try:
        items = read(RESPONSES, reply.event_stream(events))
    except Fault:
        return
    turn = items[-1]
    assert isinstance(turn, ModelTurn)
    if not turn.failure:  # the words of a refusal are quoted there, and are no answer
        assert "".join(item.content for item in items if item.type == "text") == turn.content
    assert isinstance(turn.content + turn.reasoning + "".join(one.name + one.arguments for one in turn.tool_calls), str)
