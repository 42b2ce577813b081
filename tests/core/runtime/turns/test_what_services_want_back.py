"""Whole runs at services of Chat Completions that want back what they sent, and refuse what they do not know."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agent_kernel.models.base import ModelTurn
from agent_kernel.models.provider_items import CallItem, OpaqueItem, ProviderItems
from agent_kernel.protocol.commands import Decision
from agent_kernel.testing import call, calls, say
from agent_kernel.testing.wire.chat import delta, events, wants_back
from agent_kernel.testing.wire.reply import Reply, failure
from agent_kernel.testing.wire.responses import reasoning
from tests.core.models.chat_services import (
    DeepSeek,
    GeminiAtOpenRouter,
    Groq,
    Kimi,
    LiteLLM,
    Mistral,
    StrictService,
    answers,
    calls_of,
    sent,
    speaking_as,
)
from tests.core.models.model_apis import APIS, CHAT, MESSAGES, WireApi
from tests.core.models.model_fixtures import connected
from tests.core.runtime.runtime_fixtures import Stage, Stages, stage
from tests.core.runtime.turns.test_reasoning_items import converse, notices
from tests.core.runtime.turns.thinking_fixtures import Changing, look, run_code, think


def asks_after(*thoughts: dict[str, Any]) -> Reply:
    """A call of `look`, after deltas with these fields."""
    asks = {"index": 0, "id": "a", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    return events(*(delta(**fields) for fields in thoughts), delta("tool_calls", tool_calls=[asks]))


SIGNED = {"google": {"thought_signature": "CvcQAdHtim+/w==", "more": [1, None]}}
ENCRYPTED = {"type": "reasoning.encrypted", "format": "google-gemini-v1", "index": 0}


def reasoning_of(messages: Sequence[dict[str, Any]]) -> list[str | None]:
    return [one.get("reasoning_content") for one in answers(list(messages))]


async def decide(one: Stage, number: int, decision: Decision) -> None:
    request = (await one.requests(number))[-1]
    await one.conversation.route_decision(request.approval_id, decision)


@pytest.mark.parametrize("service", [DeepSeek, Kimi])
async def test_reasoning_goes_back_through_steps_prompts_denial_edit_and_restart(
    service: type[StrictService], tmp_path: Path
) -> None:
    script = (
        look("a", "First"),
        run_code("b", "Second"),
        run_code("c", "Third"),
        think(say("One."), "Fourth"),
        wants_back(call("look", call_id="d"), reasoning_content=""),
        say("Two."),
    )
    async with connected(*script, api=speaking_as(service)) as (server, model):
        one = await stage(model, tmp_path / "log.sqlite")
        handle = await one.start()
        await decide(one, 1, Decision(approved=False, reason="No."))
        await decide(one, 2, Decision(approved=True, edited_input={"code": "3"}))
        assert (await handle.wait()).text == "One."
        await one.close()
        again = await stage(model, tmp_path / "log.sqlite")
        await converse(again, one.conversation.conversation_id, "And now?")
        await again.close()
        assert reasoning_of(sent(server)) == ["First", "Second", "Third", "Fourth", ""]
        for request in server.requests[1:]:
            before = server.requests[server.requests.index(request) - 1].body["messages"]
            assert request.body["messages"][: len(before)] == before


@pytest.mark.parametrize("name", ["reasoning_content", "reasoning"])
async def test_reasoning_goes_to_no_other_model_and_comes_back_with_its_own(stages: Stages, name: str) -> None:
    thought = wants_back(call("look", call_id="a"), **{name: "First"})
    async with (
        connected(thought, say("One."), say("Three."), api=CHAT) as (server, model),
        connected(look("b", "Else"), say("Two."), api=CHAT) as (other_server, other),
    ):
        changing = Changing(model)
        one = await stages(changing)
        for chosen in (model, other, model):
            changing.model = chosen
            assert (await (await one.start()).wait()).run.error is None
    assert [message.get(name) for message in answers(sent(server))] == ["First", None, None, None]
    assert "First" not in str(other_server.requests[-1].body)
    assert "Else" not in str(server.requests[-1].body)


@pytest.mark.parametrize("api", [api for api in APIS if api is not CHAT], ids=lambda api: api.name)
async def test_a_conversation_that_another_model_began_goes_on_at_deepseek(stages: Stages, api: WireApi) -> None:
    """It asks for the field with every call. It is empty where this service thought nothing."""
    async with (
        connected(look("toolu_1", "Else"), say("One."), api=api) as (_, model),
        connected(look("b", "Mine"), say("Two."), api=speaking_as(DeepSeek)) as (server, other),
    ):
        changing = Changing(model)
        one = await stages(changing)
        await (await one.start()).wait()
        changing.model = other
        result = await (await one.start()).wait()
    assert (result.text, result.run.error) == ("Two.", None)
    assert reasoning_of(sent(server)) == ["", None, "Mine"]
    assert "Else" not in str(server.requests[-1].body)
    assert len(server.requests) == 3  # it was refused once


async def test_claudes_thinking_blocks_go_back_to_litellm_after_a_restart_and_to_no_other(tmp_path: Path) -> None:
    first, redacted, last = LiteLLM.signed
    pieces = [
        {"reasoning_content": "First ", "thinking_blocks": [{**first, "thinking": "First ", "signature": None}]},
        {"reasoning_content": "look.", "thinking_blocks": [{**first, "thinking": "look.", "signature": None}]},
        {"reasoning_content": "", "thinking_blocks": [{**first, "thinking": ""}]},
        {"thinking_blocks": [redacted]},
        {"thinking_blocks": [last]},
        {"reasoning_content": "Hm", "thinking_blocks": [{"type": "thinking", "thinking": "Hm", "signature": None}]},
    ]
    script = (asks_after(*pieces), say("One."), say("Two."))
    async with (
        connected(*script, api=speaking_as(LiteLLM)) as (server, model),
        connected(say("Else."), api=CHAT) as (other, another),
    ):
        one = await stage(model, tmp_path / "log.sqlite")
        assert (await (await one.start()).wait()).text == "One."
        await one.close()
        for chosen in (model, another):
            again = await stage(chosen, tmp_path / "log.sqlite")
            await converse(again, one.conversation.conversation_id, "And now?")
            await again.close()
    assert [answers(sent(server, at))[0]["thinking_blocks"] for at in (1, 2)] == [LiteLLM.signed] * 2
    assert "thinking_blocks" not in str(other.requests[-1].body)
    assert len(server.requests) == 3


@pytest.mark.parametrize(
    "words",
    [
        "messages.1.content: Input should be a valid string",
        "Invalid content type 'thinking'",
        "messages.1: property 'thinking_blocks' is unsupported",
    ],
)
async def test_thinking_that_a_service_does_not_take_back_is_left_out_from_then_on(stages: Stages, words: str) -> None:
    part = {"type": "thinking", "thinking": [{"type": "text", "text": "Hm"}]}
    turn = asks_after({"content": [part], "thinking_blocks": [LiteLLM.signed[0]]})
    async with connected(turn, failure(400, words), say("One."), say("Two.")) as (server, model):
        one = await stages(model)
        assert [(await (await one.start()).wait()).text for _ in range(2)] == ["One.", "Two."]
    name = "thinking_blocks" if "blocks" in words else "content"
    kept = [bool(isinstance(v, list)) for v in (answers(sent(server, at))[0].get(name) for at in (1, 2, 3))]
    assert kept == [True, False, False]


@pytest.mark.parametrize(
    "field", [{"reasoning_content": "First"}, {"reasoning": "First"}, {"reasoning_details": [{"text": "First"}]}]
)
async def test_fields_that_a_service_does_not_know_are_left_out_from_then_on(
    stages: Stages, field: dict[str, Any]
) -> None:
    turn = wants_back(call("look", call_id="a"), {"extra_content": SIGNED}, **field)
    async with connected(turn, turn, say("Done."), api=speaking_as(Groq)) as (server, model):
        one = await stages(model)
        result = await (await one.start()).wait()
    assert (result.text, result.run.error) == ("Done.", None)
    assert len(server.requests) == 5  # each field was refused once
    assert notices(one) == []


async def test_gemini_at_openrouter_gets_its_signatures_though_it_counts_calls_anew(stages: Stages) -> None:
    def step(number: int) -> ModelTurn:
        details = [
            {"type": "reasoning.text", "text": f"Step {number}", "format": "google-gemini-v1", "index": 0},
            {**ENCRYPTED, "id": "tool_0_look", "data": f"signature of {number}"},
        ]
        return wants_back(call("look", call_id="tool_0_look"), reasoning=f"Step {number}", reasoning_details=details)

    async with connected(step(1), step(2), say("One."), say("Two."), api=speaking_as(GeminiAtOpenRouter)) as (
        server,
        model,
    ):
        one = await stages(model)
        for answer in ("One.", "Two."):
            result = await (await one.start()).wait()
            assert (result.text, result.run.error) == (answer, None)
    first, second, *_ = answers(sent(server))
    assert [item.get("data") for item in second["reasoning_details"]] == [None, "signature of 2"]
    assert "reasoning" not in first
    ids = [call["id"] for call in calls_of(sent(server))]
    assert ids == [m["tool_call_id"] for m in sent(server) if m["role"] == "tool"] == ["tool_0_look"] * 2


LONG = "A" * 5_000_000
LONG_ITEMS = {
    "chat": {"reasoning_details": [ENCRYPTED | {"data": LONG}]},
    "messages": {"type": "thinking", "thinking": "Hm", "signature": LONG},
    "responses": reasoning("Hm", encrypted=LONG),
}


@pytest.mark.parametrize("api", APIS, ids=lambda api: api.name)
async def test_an_item_of_5_mb_goes_back_unchanged_or_is_refused_in_words(stages: Stages, api: WireApi) -> None:
    items = ProviderItems(api.name, "", (OpaqueItem(LONG_ITEMS[api.name]), CallItem(0)))
    turn = replace(call("look", call_id="a"), provider=items)
    async with connected(turn, say("One."), api=api) as (server, model):
        one = await stages(model)
        result = await (await one.start()).wait()
        if result.run.error is not None:
            assert "its answer is longer than 8,000,000 characters" in result.run.error.message
            result = await (await one.start()).wait()
        else:
            assert LONG in str(server.requests[-1].body)
        assert result.text == "One."
        assert len((await one.conversation.snapshot()).view.model_dump_json()) < 20_000


async def test_a_calls_extra_content_goes_back_in_the_next_request_and_after_a_restart(tmp_path: Path) -> None:
    turn = wants_back(calls(call("look", call_id="a"), call("look", call_id="b")), {"extra_content": SIGNED})
    async with connected(turn, say("One."), say("Two.")) as (server, model):
        one = await stage(model, tmp_path / "log.sqlite")
        await (await one.start()).wait()
        await one.close()
        again = await stage(model, tmp_path / "log.sqlite")
        await converse(again, one.conversation.conversation_id, "And now?")
        await again.close()
    for request in server.requests[1:]:
        first, second = calls_of(request.body["messages"])
        assert first["extra_content"] == SIGNED
        assert "extra_content" not in second


# Ids.


@pytest.mark.parametrize("known", [True, False])
async def test_mistral_takes_a_conversation_that_began_with_claude(
    stages: Stages, known: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if known:
        monkeypatch.setattr("agent_kernel.models.chat_dialect._MISTRAL", ".127.0.0.1")
    both = calls(call("look", call_id="toolu_01A"), call("look", call_id="toolu_01B"))
    async with (
        connected(both, say("One."), api=MESSAGES) as (_, claude),
        connected(look("AbCd12345", "Is it missing?"), say("Two."), say("Three."), api=speaking_as(Mistral)) as (
            server,
            mistral,
        ),
    ):
        changing = Changing(claude)
        one = await stages(changing)
        await (await one.start()).wait()
        changing.model = mistral
        for answer in ("Two.", "Three."):
            result = await (await one.start()).wait()
            assert (result.text, result.run.error) == (answer, None)
    assert len(server.requests) == (4 if known else 5)  # what it thought is refused once, too
    ids = [call["id"] for call in calls_of(sent(server))]
    assert ids == [message["tool_call_id"] for message in sent(server) if message["role"] == "tool"]
    assert len(set(ids)) == 3
    assert ids[2] == "AbCd12345"
    assert ids[:2] == [call["id"] for call in calls_of(sent(server, -2))][:2]
    assert {call.tool_call_id for call in result.tool_calls} == set()
    view = await one.conversation.view()
    assert [call.tool_call_id for call in view.tool_calls] == ["toolu_01A", "toolu_01B", "AbCd12345"]


# Nothing empty.
