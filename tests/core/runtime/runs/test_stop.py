"""Stop, Cancel, a dead kernel, a model that fails, a time that is up: every call ends in an honest state."""

import asyncio
import time
from collections.abc import AsyncGenerator
from dataclasses import replace
from typing import Any

import pytest

from agent_kernel.errors import AlreadyDecided, LogUnavailable, UnknownRun
from agent_kernel.models.base import ModelItem, ModelRequest, TextDelta
from agent_kernel.protocol.calls import Outcome, ToolVerdict
from agent_kernel.protocol.commands import Decision
from agent_kernel.protocol.events import CompleteEvent, TokenEvent, ToolCompleteEvent, ToolStartEvent
from agent_kernel.protocol.kernel import EnvironmentDescribed
from agent_kernel.protocol.vocabulary import BudgetLimits
from agent_kernel.runtime.runs import stop
from agent_kernel.runtime.runs.lifecycle import BROKEN
from agent_kernel.runtime.runs.stop import stop_for
from agent_kernel.testing import ScriptedModel, call, calls, say
from agent_kernel.tools.declaration import ToolDeclaration
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

ASK_USER = ToolDeclaration(
    "ask_user",
    "Ask.",
    {"type": "object", "properties": {"question": {"type": "string"}}},
    approval="allow",
    runs_in="page",
)


async def test_stop_cancels_what_waits_interrupts_what_runs_and_asks_the_model_no_more(stages: Stages) -> None:
    turn = calls(call("run_python", code="sleep", call_id="a"), call("run_python", code="2", call_id="b"))
    stage = await stages([turn], executor=InterruptibleExecutor())
    handle = await stage.start()
    first, _ = await stage.requests(2)
    await stage.conversation.route_decision(first.approval_id, Decision(approved=True))
    await stage.until_runs("a")
    await stage.conversation.cancel_run(handle.run_id)
    result = await handle.wait()
    assert stage.executor.interrupted == ["a"]
    assert [c.state for c in result.tool_calls] == ["cancelled", "cancelled"]
    assert result.run.status == "cancelled"
    tools = [message for message in result.messages if message.role == "tool"]
    assert [message.tool_call_id for message in tools] == ["a", "b"], "the next prompt must find no orphan call"
    assert stage.of(CompleteEvent)[0].finish_reason == "cancelled"


async def writes_on(request: ModelRequest) -> AsyncGenerator[ModelItem, None]:
    yield TextDelta("So far ")
    yield TextDelta("so good")
    await asyncio.Event().wait()


async def test_stop_while_the_model_streams_keeps_what_came(stages: Stages) -> None:
    stage = await stages(ScriptedModel([writes_on]))
    handle = await stage.start()
    await stage.until(lambda: "".join(event.content for event in stage.of(TokenEvent)) == "So far so good")
    await stage.conversation.cancel_run(handle.run_id)
    result = await handle.wait()
    assert result.run.status == "cancelled"
    assert result.text == "So far so good"


async def test_a_call_that_does_not_end_when_interrupted_has_an_unknown_outcome(stages: Stages) -> None:
    async def stubborn(call: Any, emit: Any) -> None:
        await asyncio.Event().wait()

    stage = await stages(
        [call("run_python", code="while True: pass")], executor=FunctionExecutor(stubborn), stop_seconds=0.05
    )
    handle = await stage.start(policy="allow")
    await stage.until_runs()
    await stage.conversation.cancel_run(handle.run_id)
    result = await handle.wait()
    assert result.tool_calls[0].state == "unknown"


async def test_stop_in_the_moment_of_the_start_keeps_the_call_from_the_kernel(stages: Stages) -> None:
    """The start is on the disk; the executor has been asked for its state, and for the call not yet."""
    stopped = asyncio.Event()

    class Slow(FunctionExecutor):
        async def state_version(self) -> str | None:
            await stopped.wait()
            return None

    stage = await stages([call("look")], executor=Slow())
    handle = await stage.start(tools=(replace(LOOK, cache_seconds=60),))
    await stage.until(lambda: stage.of(ToolStartEvent))
    await stage.conversation.cancel_run(handle.run_id)
    stopped.set()
    result = await handle.wait()
    assert stage.executor.ran == []
    assert result.tool_calls[0].state == "cancelled"
    assert result.tool_calls[0].result == "Cancelled before it started. By you. Nothing ran."


@pytest.mark.parametrize("by_user", [True, False])
async def test_a_kernel_that_is_gone_ends_the_run_and_its_waiting_calls(stages: Stages, by_user: bool) -> None:
    stage = await stages([call("run_python", code="1")])
    handle = await stage.start()
    later = await stage.start("later")
    await stage.requests()
    await stage.conversation.kernel_gone("The kernel was shut down.", restarting=False, by_user=by_user)
    result = await handle.wait()
    assert result.tool_calls[0].state == "cancelled"
    if by_user:
        assert (result.run.status, result.run.error) == ("cancelled", None)
        assert result.run.notices[-1].content == "Stopped, because the kernel was shut down."
    else:
        assert result.run.error is not None
        assert (result.run.status, result.run.error.code) == ("error", "KERNEL_DIED")
    assert (await later.wait()).run.status == "cancelled"


async def test_a_fault_of_our_own_ends_the_run_and_leaves_no_open_call(stages: Stages) -> None:
    class Broken(FunctionExecutor):
        async def execute(self, call: Any, emit: Any) -> Outcome:
            raise RuntimeError("a bug")

    stage = await stages([call("run_python", code="1"), say("ok")], executor=Broken())
    handle = await stage.start(policy="allow")
    await continue_unknown(stage)
    result = await handle.wait()
    assert result.tool_calls[0].state == "unknown"


async def test_a_question_to_the_user_waits_for_the_page(stages: Stages) -> None:
    stage = await stages([call("ask_user", question="Which?", call_id="q"), say("Thanks.")])
    handle = await stage.start(tools=(ASK_USER,))
    await stage.until(lambda: stage.of(ToolStartEvent))
    await stage.conversation.tool_result("q", "The first")
    await stage.until(lambda: stage.of(ToolCompleteEvent))
    with pytest.raises(AlreadyDecided):
        await stage.conversation.tool_result("q", "The second")
    result = await handle.wait()
    assert stage.model.requests[-1].messages[-1]["content"] == "The first"
    assert result.tool_calls[0].state == "success"


async def test_a_queued_run_can_be_taken_back_and_an_unknown_one_is_refused(stages: Stages) -> None:
    stage = await stages([call("run_python", code="1"), say("ok")])
    first = await stage.start("first")
    second = await stage.start("second")
    [request] = await stage.requests()
    await stage.conversation.cancel_run(second.run_id)
    assert (await second.wait()).run.status == "cancelled"
    with pytest.raises(UnknownRun):
        await stage.conversation.cancel_run("run_nothing")
    await stage.conversation.route_decision(request.approval_id, Decision(approved=True))
    assert (await first.wait()).run.status == "complete"


async def test_a_stop_while_the_run_is_still_being_begun_stops_it(stages: Stages) -> None:
    class Slow(FunctionExecutor):
        described = asyncio.Event()
        asked = asyncio.Event()

        async def describe_environment(self) -> EnvironmentDescribed:
            self.asked.set()
            await self.described.wait()
            return EnvironmentDescribed()

    executor = Slow()
    stage = await stages([], executor=executor)
    handle = await stage.start()
    await executor.asked.wait()
    stop = asyncio.create_task(stage.conversation.cancel_run(handle.run_id))
    await asyncio.sleep(0)
    executor.described.set()
    await stop
    assert (await handle.wait()).run.status == "cancelled"


async def test_a_person_who_is_quicker_than_the_tools_own_judge_is_heard(stages: Stages) -> None:
    class Pondering(FunctionExecutor):
        asked = asyncio.Event()
        decided = asyncio.Event()

        async def tool_verdict(self, tool_name: str, arguments_json: str) -> Any:
            self.asked.set()
            await self.decided.wait()
            return ToolVerdict("ask")

    executor = Pondering()
    tool = ToolDeclaration("ponder", "Ponder.", {"type": "object", "properties": {}}, approval="dynamic")
    stage = await stages([call("ponder", call_id="a"), say("Done.")], executor=executor)
    handle = await stage.start(tools=(tool,))
    await executor.asked.wait()
    [waiting] = (await stage.conversation.view()).tool_calls
    await stage.conversation.route_decision(waiting.approval_id, Decision(approved=True))
    executor.decided.set()
    result = await handle.wait()
    assert [c.state for c in result.tool_calls] == ["success"]
    assert [ran.tool_call_id for ran in executor.ran] == ["a"]


async def test_a_run_whose_cell_is_run_again_has_its_waiting_calls_replaced(stages: Stages) -> None:
    stage = await stages([call("run_python", code="1", call_id="a")])
    handle = await stage.start()
    await stage.requests()
    await stage.conversation.cancel_run(handle.run_id, stop_for("cell_run_again"))
    result = await handle.wait()
    (ended,) = result.tool_calls
    assert (ended.state, ended.reason) == ("superseded", "Its cell was run again.")
    assert ended.result == "Replaced: the user ran the cell again. Nothing ran."
    assert result.run.status == "cancelled"
    assert [notice.content for notice in result.run.notices] == ["Stopped, because its cell was run again."]
    assert [message.role for message in result.messages] == ["user", "assistant", "tool"]


async def test_a_run_that_a_fault_keeps_from_beginning_ends_in_it_and_the_next_one_begins(stages: Stages) -> None:
    class HalfLoaded(ScriptedModel):
        faults = 1

        async def learn(self) -> None:
            if self.faults:
                self.faults = 0
                raise AttributeError("partially initialized module")

    with HalfLoaded([say("Done.")]) as model:
        stage = await stages(model)
        failed = (await stage.run()).run
        assert failed.error is not None
        assert (failed.status, failed.error.code, failed.error.message) == ("error", "INTERNAL_ERROR", BROKEN)
        assert (await stage.run("Again")).text == "Done."


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
