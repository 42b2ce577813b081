"""The seconds of a budget hold during a call and during an answer; a person's time is their own."""

import asyncio
import time
from collections.abc import AsyncGenerator
from dataclasses import replace
from typing import Any

import pytest

from agent_kernel.errors import LogUnavailable
from agent_kernel.models.base import ModelItem, ModelRequest, TextDelta
from agent_kernel.protocol.calls import ToolVerdict
from agent_kernel.protocol.commands import Decision
from agent_kernel.protocol.vocabulary import BudgetLimits
from agent_kernel.runtime.runs import stop
from agent_kernel.testing import ScriptedModel, call, calls, say
from tests.core.runtime.runtime_fixtures import (
    LOOK,
    RUN_PYTHON,
    FunctionExecutor,
    InterruptibleExecutor,
    Stage,
    Stages,
    continue_unknown,
)
from tests.core.runtime.turns.test_budget import run_view, until_paused

SOON = BudgetLimits(seconds=1)
USED_UP = "The run's time budget of 1 s is used up."
WORK = call("run_python", call_id="work", code="while True: pass")
ASKED = call("run_python", call_id="asked", code="2")


@pytest.fixture(autouse=True, scope="module")
def warm() -> None:
    """The first run of a process takes longer than these budgets."""
    import agent_kernel.runtime.graph  # noqa: F401


async def endless(request: ModelRequest) -> AsyncGenerator[ModelItem, None]:
    yield TextDelta("I begin to")
    await asyncio.Event().wait()


async def approve(stage: Stage, count: int = 1) -> None:
    for request in await stage.requests(count):
        await stage.conversation.route_decision(request.approval_id, Decision(approved=True))


async def test_when_the_time_is_up_what_runs_is_interrupted_what_waits_never_begins_and_the_run_asks_for_more(
    stages: Stages,
) -> None:
    stage = await stages([calls(WORK, ASKED), say("Done.")], executor=InterruptibleExecutor())
    handle = await stage.start(budget=SOON)
    first, _ = await stage.requests(2)
    await stage.conversation.route_decision(first.approval_id, Decision(approved=True))
    pause = await until_paused(stage)
    assert stage.executor.interrupted == ["work"]
    assert run_view(stage).paused.reached == ["seconds"]
    await stage.conversation.raise_budget(handle.run_id, pause, BudgetLimits(seconds=60))
    result = await handle.wait()
    assert [(one.state, one.reason) for one in result.tool_calls] == [("cancelled", USED_UP)] * 2
    assert [ran.tool_call_id for ran in stage.executor.ran] == ["work"]
    assert "begun" in "".join(output.text for output in result.tool_calls[0].outputs)
    told, _ = [m["content"] for m in stage.model.requests[-1].messages if m["role"] == "tool"]
    assert USED_UP in told
    assert "by the user" not in told
    assert result.text == "Done."


async def test_calls_are_ended_when_the_time_is_up_also_where_a_first_try_fails(
    stages: Stages, monkeypatch: pytest.MonkeyPatch
) -> None:
    withdrawn = stop.withdraw

    async def broken_once(*_: Any) -> Any:
        monkeypatch.setattr(stop, "withdraw", withdrawn)
        raise LogUnavailable("The disk is full.")

    class Broken(InterruptibleExecutor):
        async def interrupt(self, approval_id: str) -> bool:
            raise RuntimeError("a bug")

    monkeypatch.setattr(stop, "withdraw", broken_once)
    stage = await stages([calls(WORK, ASKED), say("Done.")], executor=Broken(), stop_seconds=0.01)
    handle = await stage.start(budget=SOON)
    first, _ = await stage.requests(2)
    await stage.conversation.route_decision(first.approval_id, Decision(approved=True))
    await continue_unknown(stage)
    pause = await until_paused(stage)
    await stage.conversation.raise_budget(handle.run_id, pause, BudgetLimits(seconds=60))
    result = await handle.wait()
    assert [(one.tool_call_id, one.state) for one in result.tool_calls] == [("work", "unknown"), ("asked", "cancelled")]
    assert result.text == "Done."


async def test_the_time_goes_on_where_another_call_was_cancelled_before_it_was_asked_about(stages: Stages) -> None:
    class Slow(InterruptibleExecutor):
        asked, cancelled = asyncio.Event(), asyncio.Event()

        async def tool_verdict(self, tool_name: str, arguments_json: str) -> ToolVerdict:
            self.asked.set()
            await self.cancelled.wait()
            return ToolVerdict("ask")

    executor = Slow()
    slow = replace(LOOK, name="slow", approval="dynamic", read_only=False)
    stage = await stages([calls(WORK, call("slow", call_id="slow")), say("Done.")], executor=executor)
    handle = await stage.start(budget=SOON, tools=(RUN_PYTHON, slow))
    await executor.asked.wait()
    await stage.conversation.cancel_call("slow")
    executor.cancelled.set()
    await approve(stage)
    pause = await until_paused(stage)
    await stage.conversation.raise_budget(handle.run_id, pause, BudgetLimits(seconds=60))
    result = await handle.wait()
    assert [(one.state, one.reason) for one in result.tool_calls] == [("cancelled", USED_UP), ("cancelled", "By you.")]


async def test_an_answer_is_cut_off_when_the_time_is_up_and_asked_for_again_with_more(stages: Stages) -> None:
    model = ScriptedModel([endless, say("The answer.")])
    stage = await stages(model)
    handle = await stage.start(budget=SOON)
    pause = await until_paused(stage)
    await stage.conversation.raise_budget(handle.run_id, pause, BudgetLimits(seconds=60))
    result = await handle.wait()
    assert result.text == "The answer."
    assert [m.content for m in result.messages if m.role == "assistant"] == ["The answer."]
    assert [m["role"] for m in model.requests[-1].messages] == ["system", "user"]
    assert result.run.usage.estimated
    assert result.run.usage.steps == 1


async def test_the_time_in_which_a_person_decides_is_not_counted(stages: Stages) -> None:
    stage = await stages([call("run_python", code="1"), say("Done.")], executor=FunctionExecutor(approval="ask"))
    began = time.monotonic()
    handle = await stage.start()
    await stage.requests()
    asked = time.monotonic()
    await asyncio.sleep(0.1)  # the person thinks
    thought = time.monotonic() - asked
    await approve(stage)
    result = await handle.wait()
    assert (result.run.status, result.text) == ("complete", "Done.")
    assert result.run.usage.seconds <= time.monotonic() - began - thought
