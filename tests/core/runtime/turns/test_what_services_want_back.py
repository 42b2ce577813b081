"""What a model thought, and other fields that services want back, go back unchanged and in their place through all that
happens to a run, and to no other service. The doubles refuse what was changed, and what they do not know."""

import itertools
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest

from agent_kernel.log.message_rows import read_messages
from agent_kernel.models.base import ModelTurn
from agent_kernel.protocol.commands import Decision
from agent_kernel.protocol.events import ReasoningEvent, RunEvent, TokenEvent
from agent_kernel.testing import call, calls, say
from agent_kernel.testing.fake_anthropic import FakeAnthropic
from agent_kernel.testing.fake_service import FakeService
from agent_kernel.testing.wire.chat import delta, events, wants_back
from agent_kernel.testing.wire.messages import SIGNED
from tests.core.models.chat_services import (
    DeepSeek,
    Gateway,
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
from tests.core.models.model_apis import APIS, MESSAGES, RESPONSES, WireApi
from tests.core.models.model_fixtures import connected, speaking
from tests.core.runtime.runtime_fixtures import NO, Stage, Stages, second_life

ENCRYPTED = {"type": "reasoning.encrypted", "format": "google-gemini-v1", "index": 0}


def reasoning_of(messages: Sequence[dict[str, Any]]) -> list[str | None]:
    return [one.get("reasoning_content") for one in answers(list(messages))]


@pytest.mark.parametrize("service", [DeepSeek, Kimi])
async def test_reasoning_goes_back_through_steps_prompts_denial_edit_and_restart(
    stages: Stages, service: type[StrictService], tmp_path: Path
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
        one = await stages(model, path=tmp_path / "log.sqlite")
        result = await one.run("Go", NO, Decision(approved=True, edited_input={"code": "3"}))
        assert result.text == "One."
        async with second_life(one, model=model) as again:
            assert (await again.run("And now?")).text == "Two."
        assert reasoning_of(sent(server)) == ["First", "Second", "Third", "Fourth", ""]
        bodies = [request.body["messages"] for request in server.requests]
        for before, after in itertools.pairwise(bodies):
            assert after[: len(before)] == before


async def test_gemini_at_openrouter_gets_its_signatures_though_it_counts_calls_anew(stages: Stages) -> None:
    def step(number: int) -> ModelTurn:
        details = [
            {"type": "reasoning.text", "text": f"Step {number}", "format": "google-gemini-v1", "index": 0},
            {**ENCRYPTED, "id": "tool_0_look", "data": f"signature of {number}"},
        ]
        return wants_back(call("look", call_id="tool_0_look"), reasoning=f"Step {number}", reasoning_details=details)

    script = (step(1), step(2), say("One."), say("Two."))
    async with connected(*script, api=speaking_as(GeminiAtOpenRouter)) as (server, model):
        one = await stages(model)
        assert [(await one.run()).text for _ in range(2)] == ["One.", "Two."]
    first, second, *_ = answers(sent(server))
    assert [item.get("data") for item in second["reasoning_details"]] == [None, "signature of 2"]
    assert "reasoning" not in first
    ids = [call["id"] for call in calls_of(sent(server))]
    assert ids == [m["tool_call_id"] for m in sent(server) if m["role"] == "tool"] == ["tool_0_look"] * 2


@pytest.mark.parametrize("known", [True, False])
async def test_mistral_takes_a_conversation_that_began_with_claude(
    stages: Stages, known: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if known:
        monkeypatch.setattr("agent_kernel.models.chat_messages._MISTRAL", ".127.0.0.1")
    both = calls(call("look", call_id="toolu_01A"), call("look", call_id="toolu_01B"))
    script = (look("AbCd12345", "Is it missing?"), say("Two."), say("Three."))
    async with (
        connected(both, say("One."), api=MESSAGES) as (_, claude),
        connected(*script, api=speaking_as(Mistral)) as (server, mistral),
    ):
        one = await stages(claude)
        await one.run()
        one.use(mistral)
        assert [(await one.run()).text for _ in range(2)] == ["Two.", "Three."]
    assert len(server.requests) == (4 if known else 5)  # what it thought is refused once, too
    ids = [call["id"] for call in calls_of(sent(server))]
    assert ids == [message["tool_call_id"] for message in sent(server) if message["role"] == "tool"]
    assert (len(set(ids)), ids[2]) == (3, "AbCd12345")
    assert ids[:2] == [call["id"] for call in calls_of(sent(server, -2))][:2]
    assert [call.tool_call_id for call in await one.calls()] == ["toolu_01A", "toolu_01B", "AbCd12345"]


@pytest.mark.parametrize(
    ("service", "first", "requests"),
    [
        (Gateway, call("run_python", call_id="a", code="pass"), 3),
        (LiteLLM, wants_back(call("look", call_id="a"), thinking_blocks=LiteLLM.signed), 3),
        (Groq, replace(call("look", call_id="a"), reasoning="Hm"), 4),  # it refuses once what it had thought
    ],
)
async def test_a_whole_run_has_what_the_service_takes(
    stages: Stages, service: type[StrictService], first: ModelTurn, requests: int
) -> None:
    async with connected(first, say("One."), say("Two."), api=speaking_as(service)) as (server, model):
        one = await stages(model)
        assert [(await one.run(policy="allow")).text for _ in range(2)] == ["One.", "Two."]
    assert len(server.requests) == requests


def think(turn: ModelTurn, thought: str) -> ModelTurn:
    return replace(turn, reasoning=thought)


def look(call_id: str, thought: str) -> ModelTurn:
    return think(call("look", call_id=call_id), thought)


def run_code(call_id: str, thought: str) -> ModelTurn:
    return think(call("run_python", call_id=call_id, code="1"), thought)


def shape(server: FakeService, request: int = -1) -> list[str]:
    """A request's items in short: what was thought, asked for and said."""
    return [_short(item) for item in server.requests[request].body["input"]]


def _short(item: dict[str, Any]) -> str:
    match item["type"]:
        case "reasoning":
            assert item["encrypted_content"]
            return "thought " + item["summary"][0]["text"]
        case "function_call":
            return "call " + item["call_id"]
        case "function_call_output":
            return "output " + item["call_id"]
        case _:
            return item["role"]


def notices(stage: Stage) -> list[str]:
    return [notice.content for event in stage.of(RunEvent) for notice in event.run.notices]


STEP = ["user", "thought First", "call a", "output a"]


@pytest.mark.parametrize("api", [RESPONSES, MESSAGES], ids=lambda api: api.name)
async def test_after_a_restart_and_once_in_the_log(stages: Stages, tmp_path: Path, api: WireApi) -> None:
    script = (look("a", "First"), think(say("One."), "Second"), say("Two."))
    async with connected(*script, api=api) if api is RESPONSES else speaking(*script) as (server, model):
        one = await stages(model, path=tmp_path / "log.sqlite")
        await one.run()
        async with second_life(one, model=model) as again:
            await again.run("And now?")
            view = await again.conversation.view()
            bodies = await again.log.read(lambda sql: [body for _, _, body in read_messages(sql, 1)])
    assert [m.reasoning for m in view.messages if m.role == "assistant"] == ["First", "Second", ""]
    if api is RESPONSES:
        assert shape(server) == [*STEP, "thought Second", "assistant", "user"]
        return
    assert thoughts(server) == ["First", "Second"]
    assert [orjson.dumps(body).count(SIGNED.encode()) for body in bodies] == [0, 1, 0, 1, 0, 0]
    assert SIGNED not in str(again.events)


@pytest.mark.parametrize("other", [api for api in APIS if api is not RESPONSES], ids=lambda api: api.name)
async def test_a_model_of_another_api_takes_over_and_gives_back(stages: Stages, other: WireApi) -> None:
    async with (
        connected(look("a", "First"), think(say("One."), "Second"), say("Three."), api=RESPONSES) as (server, model),
        connected(look("b", "Else"), say("Two."), api=other) as (other_server, other_model),
    ):
        one = await stages(model)
        for chosen in (model, other_model, model):
            one.use(chosen)
            result = await one.run()
            assert result.run.error is None, result.run.error
    text = orjson.dumps(other_server.requests[-1].body).decode()
    assert ("gAAAA" in text, "rs_" in text) == (False, False)
    own = [*STEP, "thought Second", "assistant"]
    assert shape(server) == [*own, "user", "call b", "output b", "assistant", "user"]
    assert notices(one) == []


def thoughts(server: FakeAnthropic, request: int = -1) -> list[str]:
    messages = server.requests[request].body["messages"]
    return [block["thinking"] for message in messages for block in message["content"] if block["type"] == "thinking"]


async def test_what_was_thought_between_tags_is_no_part_of_the_answer(stages: Stages) -> None:
    pieces = ["<th", "ink>\n", "Hm", ".\n</th", "ink>\n", "\nYes", "."]
    first = events(*(delta(content=piece) for piece in pieces), delta("stop"), split_every=20)
    async with connected(first, say("Two.")) as (server, model):
        stage = await stages(model)
        result = await stage.run()
        await stage.run("And now?")
    assert (result.run.status, result.text) == ("complete", "Yes.")
    [message] = [message for message in result.messages if message.role == "assistant"]
    assert (message.content, message.reasoning) == ("Yes.", "Hm.\n")
    assert "".join(event.content for event in stage.of(ReasoningEvent)) == "Hm.\n"
    assert "".join(event.content for event in stage.of(TokenEvent)) == "Yes.Two."
    assert [one["content"] for one in server.requests[1].body["messages"] if one["role"] == "assistant"] == ["Yes."]
