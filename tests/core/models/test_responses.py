"""The Responses API: what is asked, what goes back to the provider, and what only its servers do."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_kernel.models.base import ModelItem, ModelRequest, ModelTurn, Notice, RequestedCall
from agent_kernel.models.service_faults import Fault
from agent_kernel.testing import call, say
from agent_kernel.testing.wire.reply import Reply, event_stream, json_reply
from agent_kernel.testing.wire.responses import (
    Event,
    events_of,
    function_call,
    item_events,
    message,
    numbered,
    reasoning,
)
from tests.core.models import test_answer
from tests.core.models.model_apis import RESPONSES
from tests.core.models.model_fixtures import REQUEST, collect, connected, turn_of
from tests.core.models.test_answer import TURN, read_turn

TOOL = {"type": "function", "function": {"name": "f", "description": "Does f.", "parameters": {"type": "object"}}}
REF = {"digest": "ab", "media_type": "image/png", "width": 3, "height": 4}


def read(body: bytes) -> list[ModelItem]:
    return test_answer.read(RESPONSES, body)


def turn_from(*items: Event, **options: Any) -> ModelTurn:
    return read_turn(RESPONSES, event_stream(numbered(item_events(list(items), **options))))


def wire(turn: ModelTurn) -> dict[str, Any]:
    """As the loop remembers a turn."""
    body: dict[str, Any] = {"role": "assistant", "content": turn.content}
    functions = [(one.id, {"name": one.name, "arguments": one.arguments}) for one in turn.tool_calls]
    if functions:
        body["tool_calls"] = [{"id": name, "type": "function", "function": function} for name, function in functions]
    return body if turn.provider is None else body | {"provider": turn.provider.to_wire()}


def answers(turn: ModelTurn) -> list[dict[str, Any]]:
    return [{"role": "tool", "tool_call_id": one.id, "content": "ok"} for one in turn.tool_calls]


async def sent_back(*items: Event, **options: Any) -> list[Any]:
    """The input items of the request that follows a turn of these items."""
    reply = Reply(body=event_stream(numbered(item_events(list(items), **options))))
    async with connected(reply, say("Done."), api=RESPONSES) as (server, model):
        turn = await turn_of(model)
        await turn_of(model, ModelRequest([*REQUEST.messages, wire(turn), *answers(turn)]))
    assert server.requests[1].body["input"][0]["role"] == "user"
    return [item for item in server.requests[1].body["input"][1:] if item["type"] != "function_call_output"]


async def test_the_request_stores_nothing_and_asks_for_encrypted_reasoning() -> None:
    messages = ({"role": "system", "content": "Be brief."}, *REQUEST.messages)
    async with connected(say("Hi"), say("Hi"), api=RESPONSES) as (server, model):
        await turn_of(model, ModelRequest(messages, (TOOL,), effort="low", cache_key="conv_1"))
        await turn_of(model)
    assert server.requests[0].body == {
        "model": "fake",
        "stream": True,
        "store": False,
        "include": ["reasoning.encrypted_content"],
        "reasoning": {"summary": "auto", "effort": "low"},
        "prompt_cache_key": "conv_1",
        "instructions": "Be brief.",
        "input": [{"type": "message", "role": "user", "content": "How many penguins are there?"}],
        "tools": [{"type": "function", **TOOL["function"], "strict": False}],
    }
    assert not server.requests[1].body.keys() & {"tools", "instructions", "prompt_cache_key"}


async def test_pictures_stand_in_the_message_and_in_the_result_that_showed_them() -> None:
    turn = call("look", call_id="a")
    messages = [
        {"role": "user", "content": "What is this?", "images": [REF]},
        wire(turn),
        {"role": "tool", "tool_call_id": "a", "content": "ok", "images": [REF, {**REF, "digest": "gone"}]},
    ]
    async with connected(say("Hi"), api=RESPONSES) as (server, model):
        await turn_of(model, ModelRequest(messages, images={"ab": "QUJD"}))
    asked, _, shown = server.requests[0].body["input"]
    picture = {"type": "input_image", "detail": "auto", "image_url": "data:image/png;base64,QUJD"}
    assert asked["content"] == [{"type": "input_text", "text": "What is this?"}, picture]
    assert shown["output"][:2] == [{"type": "input_text", "text": "ok"}, picture]
    assert "3 x 4 pixels" in shown["output"][2]["text"]


async def test_reasoning_goes_back_directly_before_its_call_and_items_of_types_to_come_as_they_came() -> None:
    first, second = RequestedCall("a", "f", "{}"), RequestedCall("b", "f", "{}")
    items = [
        {"type": "compaction", "id": "cmp_1", "encrypted_content": "x"},
        reasoning("One.", item_id="rs_1"),
        function_call(first, 0),
        reasoning("Two.", item_id="rs_2"),
        function_call(second, 1),
    ]
    assert await sent_back(*items) == items


async def test_all_messages_of_a_turn_go_back_with_their_phase() -> None:
    items = [
        message("Let me look.", item_id="msg_1", phase="commentary"),
        reasoning("Hm.", item_id="rs_1"),
        message("Here it is.", item_id="msg_2", phase="final_answer"),
        function_call(RequestedCall("a", "f", "{}"), 0),
    ]
    assert turn_from(*items).content == "Let me look.\n\nHere it is."
    assert await sent_back(*items) == items


async def test_reasoning_that_led_to_nothing_is_not_sent_back() -> None:
    items = [message("Half an ans", item_id="msg_1"), reasoning("And then", item_id="rs_1")]
    assert await sent_back(*items, finish="length") == items[:1]
    assert await sent_back(reasoning("Hm", item_id="rs_1"), finish="length") == []


@settings(max_examples=100)
@given(data=st.data())
def test_an_answer_whose_events_are_lost_repeated_or_out_of_order_is_whole_or_a_fault(data: st.DataObject) -> None:
    sent = numbered(events_of(TURN, interleave=data.draw(st.booleans())))
    for _ in range(data.draw(st.integers(1, 4))):
        at, to = (data.draw(st.integers(0, len(sent) - 1)) for _ in range(2))
        match data.draw(st.sampled_from(["lost", "repeated", "late"])):
            case "lost" if len(sent) > 1:
                del sent[at]
            case "repeated":
                sent.insert(max(at, to), sent[at])
            case _:
                sent.insert(to, sent.pop(at))
    try:
        turn = read_turn(RESPONSES, event_stream(sent))
    except Fault:
        return
    assert turn.content == TURN.content
    assert {(one.name, one.arguments) for one in turn.tool_calls} == {(c.name, c.arguments) for c in TURN.tool_calls}
    assert len(turn.tool_calls) == len(TURN.tool_calls)


def refusal(words: str, *, param: str | None = None, code: str | None = None, status: int = 400) -> Reply:
    error = {"message": words, "type": "invalid_request_error", "param": param, "code": code}
    return json_reply({"error": error}, status=status)


REASONING_UNKNOWN = "Unsupported parameter: 'reasoning.summary' is not supported with this model."
CACHE_KEY_UNKNOWN = "Unknown parameter: 'prompt_cache_key'."


@pytest.mark.parametrize(
    ("said", "field"),
    [
        (refusal("Encrypted content is not supported with this model.", param="include"), "include"),
        (refusal(REASONING_UNKNOWN, param="reasoning.summary", code="unsupported_parameter"), "reasoning"),
        (refusal(CACHE_KEY_UNKNOWN), "prompt_cache_key"),
    ],
)
async def test_a_field_that_a_server_or_a_model_does_not_know_is_left_out_from_then_on(said: Reply, field: str) -> None:
    request = replace(REQUEST, cache_key="conv_1")
    async with connected(said, say("Hi"), say("Hi"), api=RESPONSES) as (server, model):
        items = [*await collect(model, request), *await collect(model, request)]
    assert not any(isinstance(item, Notice) for item in items)
    assert [field in one.body for one in server.requests] == [True, False, False]
