"""Stop, Cancel, a dead kernel, a model that fails, a time that is up: every call ends in an honest state."""

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import replace
from typing import Any

import pytest

from agent_kernel.errors import LogUnavailable
from agent_kernel.models.base import ModelItem, ModelRequest, TextDelta
from agent_kernel.protocol.calls import ToolVerdict
from agent_kernel.protocol.events import CompleteEvent, ErrorEvent, TokenEvent, ToolStartEvent
from agent_kernel.protocol.kernel import EnvironmentDescribed
from agent_kernel.protocol.vocabulary import BudgetLimits
from agent_kernel.runtime.runs import lifecycle
from agent_kernel.testing import call, calls, say
from tests.core.runtime.runtime_fixtures import (
    LOOK,
    YES,
    FunctionExecutor,
    InterruptibleExecutor,
    Stages,
    run_view,
    states,
    until_paused,
    until_unknown,
)

ONE = call("run_python", code="1", call_id="a")
TWO = calls(ONE, call("run_python", code="2", call_id="b"))


async def endless(*_: Any) -> None:
    await asyncio.Event().wait()


async def writes_on(request: ModelRequest) -> AsyncGenerator[ModelItem, None]:
    yield TextDelta("So far ")
    yield TextDelta("so good")
    await endless()


class Gate:
    """Holds a method of an executor until it is opened; says when it was asked."""

    def __init__(self, executor: FunctionExecutor, method: str, result: Any) -> None:
        self.asked, self.opened = asyncio.Event(), asyncio.Event()

        async def held(*_: Any) -> Any:
            self.asked.set()
            await self.opened.wait()
            return result

        setattr(executor, method, held)


async def test_stop_cancels_what_waits_interrupts_what_runs_and_asks_the_model_no_more(stages: Stages) -> None:
    stage = await stages([TWO], executor=InterruptibleExecutor())
    handle, _ = await stage.asking(2)
    await stage.approve()
    await stage.until_runs("a")
    await stage.conversation.cancel_run(handle.run_id)
    result = await handle.wait()
    assert stage.executor.interrupted == ["a"]
    assert (result.run.status, states(result)) == ("cancelled", {"a": "cancelled", "b": "cancelled"})
    tools = [message.tool_call_id for message in result.messages if message.role == "tool"]
    assert tools == ["a", "b"], "the next prompt must find no orphan call"
    assert stage.of(CompleteEvent)[0].finish_reason == "cancelled"


async def test_stop_while_the_model_streams_keeps_what_came(stages: Stages) -> None:
    stage = await stages([writes_on])
    handle = await stage.start()
    await stage.until(lambda: "".join(event.content for event in stage.of(TokenEvent)) == "So far so good")
    await stage.conversation.cancel_run(handle.run_id)
    result = await handle.wait()
    assert (result.run.status, result.text) == ("cancelled", "So far so good")


async def test_stop_in_the_moment_of_the_start_keeps_the_call_from_the_kernel(stages: Stages) -> None:
    """The start is on the disk; the executor has been asked for its state, and for the call not yet."""
    stage = await stages([call("look")])
    gate = Gate(stage.executor, "state_version", None)
    handle = await stage.start(tools=(replace(LOOK, cache_seconds=60),))
    await stage.until(lambda: stage.of(ToolStartEvent))
    await stage.conversation.cancel_run(handle.run_id)
    gate.opened.set()
    [ended] = (await handle.wait()).tool_calls
    assert stage.executor.ran == []
    assert (ended.state, ended.result) == ("cancelled", "Cancelled before it started. By you. Nothing ran.")


@pytest.mark.parametrize("by_user", [True, False])
async def test_a_kernel_that_is_gone_ends_the_run_and_its_waiting_calls(stages: Stages, by_user: bool) -> None:
    stage = await stages([ONE])
    handle, _ = await stage.asking()
    later = await stage.start("later")
    await stage.conversation.kernel_gone("The kernel was shut down.", restarting=False, by_user=by_user)
    result = await handle.wait()
    assert states(result) == {"a": "cancelled"}
    if by_user:
        assert (result.run.status, result.run.error) == ("cancelled", None)
        assert result.run.notices[-1].content == "Stopped, because the kernel was shut down."
    else:
        assert result.run.error is not None
        assert (result.run.status, result.run.error.code) == ("error", "KERNEL_DIED")
    assert (await later.wait()).run.status == "cancelled"


async def test_a_stop_while_the_run_is_still_being_begun_stops_it(stages: Stages) -> None:
    stage = await stages([])
    gate = Gate(stage.executor, "describe_environment", EnvironmentDescribed())
    handle = await stage.start()
    await gate.asked.wait()
    stop = asyncio.create_task(stage.conversation.cancel_run(handle.run_id))
    await asyncio.sleep(0)
    gate.opened.set()
    await stop
    assert (await handle.wait()).run.status == "cancelled"


async def test_a_person_who_is_quicker_than_the_tools_own_judge_is_heard(stages: Stages) -> None:
    stage = await stages([call("look", call_id="a"), say("Done.")])
    gate = Gate(stage.executor, "tool_verdict", ToolVerdict("ask"))
    handle = await stage.start(tools=(replace(LOOK, approval="dynamic"),))
    await gate.asked.wait()
    [waiting] = await stage.calls()
    await stage.conversation.route_decision(waiting.approval_id, YES)
    gate.opened.set()
    assert states(await handle.wait()) == {"a": "success"}
    assert [ran.tool_call_id for ran in stage.executor.ran] == ["a"]


async def test_a_run_whose_end_cannot_be_written_has_not_ended_until_it_is(
    stages: Stages, monkeypatch: pytest.MonkeyPatch
) -> None:
    written, takes = lifecycle.write_end, False

    def refused(*arguments: Any, **named: Any) -> Any:
        if not takes:
            raise LogUnavailable("The disk is full.")
        return written(*arguments, **named)

    monkeypatch.setattr(lifecycle, "write_end", refused)
    monkeypatch.setattr(lifecycle, "_FIRST_PAUSE", 0.01)
    stage = await stages([say("Done.")])
    await stage.start()
    await stage.until(lambda: [event for event in stage.of(ErrorEvent) if event.run_id is None])
    [run], [kept] = stage.runs, (await stage.conversation.view()).runs
    assert (run.view.status, kept.status, kept.ended_at) == ("running", "running", None)
    takes = True
    await stage.until(lambda: stage.of(CompleteEvent))
    [kept] = (await stage.conversation.view()).runs
    assert (kept.status, kept.finish_reason) == ("complete", "stop")


SOON, MORE = BudgetLimits(seconds=1), BudgetLimits(seconds=60)
USED_UP = "The run's time budget of 1 s is used up."


@pytest.fixture(autouse=True, scope="module")
def warm() -> None:
    """The first run of a process takes longer than these budgets."""
    import agent_kernel.runtime.graph  # noqa: F401


async def test_when_the_time_is_up_what_runs_is_interrupted_what_waits_never_begins_and_the_run_asks_for_more(
    stages: Stages,
) -> None:
    stage = await stages([TWO, say("Done.")], executor=InterruptibleExecutor())
    handle, _ = await stage.asking(2, budget=SOON)
    await stage.approve()
    pause = await until_paused(stage)
    assert (stage.executor.interrupted, run_view(stage).paused.reached) == (["a"], ["seconds"])
    await stage.conversation.raise_budget(handle.run_id, pause, MORE)
    result = await handle.wait()
    assert [(one.state, one.reason) for one in result.tool_calls] == [("cancelled", USED_UP)] * 2
    assert [ran.tool_call_id for ran in stage.executor.ran] == ["a"]
    assert "begun" in "".join(output.text for output in result.tool_calls[0].outputs)
    assert USED_UP in stage.told()[0]
    assert "by the user" not in stage.told()[0]
    assert result.text == "Done."


async def test_a_fault_of_our_own_ends_the_run_and_leaves_no_open_call(stages: Stages) -> None:
    def broken(*_: Any) -> None:
        raise RuntimeError("a bug")

    stage = await stages([ONE, say("ok")], executor=FunctionExecutor(broken))
    handle = await stage.start(policy="allow")
    await stage.conversation.answer_unknown(await until_unknown(stage), "continue")
    assert states(await handle.wait()) == {"a": "unknown"}
