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
from agent_kernel.testing import call, say
from agent_kernel.testing.fake_anthropic import FakeAnthropic
from agent_kernel.testing.fake_service import FakeService
from agent_kernel.testing.wire.chat import delta, events, wants_back
from agent_kernel.testing.wire.messages import SIGNED
from tests.core.models.chat_services import (
    DeepSeek,
    Kimi,
    StrictService,
    answers,
    sent,
    speaking_as,
)
from tests.core.models.model_apis import APIS, MESSAGES, RESPONSES, WireApi
from tests.core.models.model_fixtures import connected, speaking
from tests.core.runtime.runtime_fixtures import NO, Stage, Stages, second_life


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


# Ids.


# Nothing empty.


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
