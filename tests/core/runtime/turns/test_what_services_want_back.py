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
from agent_kernel.testing.wire.chat import wants_back
from agent_kernel.testing.wire.responses import reasoning
from tests.core.models.chat_services import (
    DeepSeek,
    GeminiAtOpenRouter,
    Kimi,
    Mistral,
    StrictService,
    answers,
    calls_of,
    sent,
    speaking_as,
)
from tests.core.models.model_apis import APIS, MESSAGES, WireApi
from tests.core.models.model_fixtures import connected
from tests.core.runtime.runtime_fixtures import Stage, Stages, stage
from tests.core.runtime.turns.test_reasoning_items import converse
from tests.core.runtime.turns.thinking_fixtures import Changing, look, run_code, think

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
