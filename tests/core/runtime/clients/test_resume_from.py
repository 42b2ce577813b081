"""A page that is opened while a run goes on reads again only what its snapshot lacks."""

import asyncio
from collections.abc import AsyncGenerator

import pytest

from agent_kernel.models.base import ModelItem, ModelRequest, ReasoningDelta, TextDelta, ToolCallDelta
from agent_kernel.protocol.events import ReasoningEvent, TokenEvent, ToolStateEvent
from agent_kernel.testing import ScriptedModel, call
from tests.core.runtime.runtime_fixtures import Stage, Stages


async def thinks_and_begins(request: ModelRequest) -> AsyncGenerator[ModelItem, None]:
    yield ReasoningDelta("Let me see.")
    yield TextDelta("Half an ans")
    await asyncio.Event().wait()


async def begins_a_call(request: ModelRequest) -> AsyncGenerator[ModelItem, None]:
    yield ToolCallDelta(0, "run_python", "half")
    await asyncio.Event().wait()


async def resume_from(stage: Stage) -> int:
    snapshot = await stage.conversation.snapshot()
    assert snapshot.view.last_seq == stage.conversation.last_seq
    return snapshot.resume_from


@pytest.mark.parametrize("steps", [1, 40])
async def test_of_a_long_run_it_is_the_turn_that_the_model_is_writing(stages: Stages, steps: int) -> None:
    looks = [call("look", call_id=f"c{number}") for number in range(steps)]
    stage = await stages(ScriptedModel([*looks, thinks_and_begins]))
    await stage.start()
    await stage.until(lambda: [event for event in stage.of(TokenEvent) if event.content == "Half an ans"])
    assert await resume_from(stage) == stage.of(ReasoningEvent)[-1].seq - 1


async def test_a_call_that_the_model_is_writing_is_part_of_it(stages: Stages) -> None:
    stage = await stages(ScriptedModel([call("look", call_id="a"), begins_a_call]))
    await stage.start()
    cards = await stage.until(lambda: [event for event in stage.of(ToolStateEvent) if event.tool_call_id == "half"])
    assert await resume_from(stage) == cards[0].seq - 1
