"""A call behind the user's own cell, and a file that is put back: at the level of the runtime."""

from typing import Any

import pytest

from agent_kernel.errors import IllegalTransition, UndoRefused
from agent_kernel.protocol.calls import ApprovedCall, Outcome
from agent_kernel.protocol.events import ToolCompleteEvent, ToolStartEvent, ToolStateEvent, ToolUndoneEvent
from agent_kernel.protocol.views import ToolCallView
from agent_kernel.testing import ScriptedModel, call, say
from tests.core.runtime.runtime_fixtures import FunctionExecutor, Stages

WRITTEN = "2026-11-20T14:11:20Z"


async def test_a_call_says_that_it_waits_behind_the_users_cell_and_when_it_begins(stages: Stages) -> None:
    with ScriptedModel([call("run_python", code="1"), say("ok")]) as model:
        stage = await stages(model)

        async def act(_: ApprovedCall, __: Any) -> str:
            executor.behind = 9
            await stage.until(lambda: stage.of(ToolStateEvent)[-1].waiting_behind == 9)
            snapshots.extend((await stage.conversation.view()).tool_calls)
            executor.behind = None
            await stage.until(lambda: stage.of(ToolStateEvent)[-1].waiting_behind is None)
            return "ran"

        executor: FunctionExecutor = stage.executor
        executor.act = act
        snapshots: list[ToolCallView] = []
        await (await stage.start(policy="allow")).wait()
        snapshots.extend((await stage.conversation.view()).tool_calls)
    assert [view.waiting_behind for view in snapshots] == [9, None]
    waits = [event for event in stage.of(ToolStateEvent) if event.state == "executing"]
    assert [event.waiting_behind for event in waits] == [9, None]
    assert stage.events.index(waits[0]) > stage.events.index(stage.of(ToolStartEvent)[0])
    assert stage.events.index(waits[1]) < stage.events.index(stage.of(ToolCompleteEvent)[0])


def keeps(stage: Any) -> None:
    """The executor keeps what each call replaced."""

    def act(ran: ApprovedCall, _: Any) -> Outcome:
        stage.executor.kept.add(ran.approval_id)
        return Outcome("success", "Replaced a.md.", WRITTEN)

    stage.executor.act = act


async def shown(stage: Any, tool_call_id: str) -> tuple[str | None, bool]:
    """What a page that is opened now offers to undo, and whether that was done."""
    [view] = [one for one in (await stage.conversation.view()).tool_calls if one.tool_call_id == tool_call_id]
    return view.undo, view.undone


async def test_what_a_call_wrote_is_undone_and_the_model_learns_of_it_before_it_goes_on(stages: Stages) -> None:
    turns = [call("run_python", code="1", call_id="a"), call("run_python", code="2", call_id="b"), say("ok")]
    with ScriptedModel(turns) as model:
        stage = await stages(model)
        keeps(stage)
        rules = ('ask run_python where code is "2"',)
        handle = await stage.start(policy="allow", rules=rules)
        [waiting] = await stage.requests()
        assert stage.of(ToolCompleteEvent)[0].undo == WRITTEN
        assert await shown(stage, "a") == (WRITTEN, False)
        await stage.conversation.undo_call("a", decided_by="ana")
        assert stage.executor.undone == ["a"]
        assert await shown(stage, "a") == (WRITTEN, True)
        with pytest.raises(IllegalTransition):
            await stage.conversation.undo_call("b")
        await stage.conversation.cancel_call(waiting.tool_call_id)
        await handle.wait()
    [undone] = stage.of(ToolUndoneEvent)
    assert (undone.tool_call_id, undone.decided_by) == ("a", "ana")
    assert model.requests[-1].messages[-1]["role"] == "user"
    assert "I have undone your run_python call" in model.requests[-1].messages[-1]["content"]


async def test_what_a_call_wrote_is_undone_after_the_run_and_the_model_of_the_next_prompt_learns_of_it(
    stages: Stages,
) -> None:
    with ScriptedModel([call("run_python", code="1", call_id="a"), say("Written."), say("I see.")]) as model:
        stage = await stages(model)
        keeps(stage)
        await (await stage.start(policy="allow")).wait()
        [written] = (await stage.conversation.view()).tool_calls
        undone = await stage.runtime.undo(written.approval_id, decided_by="ana")
        assert (undone.undone, stage.executor.undone) == (True, ["a"])
        with pytest.raises(UndoRefused, match="undone already"):
            await stage.runtime.undo(written.approval_id)
        await (await stage.start("And now?", policy="allow")).wait()
    told = [message["content"] for message in model.requests[-1].messages if message["role"] == "user"]
    assert told[1] == "I have undone your run_python call: None is as it was before."
    assert told[2].startswith("And now?")
    assert [event.decided_by for event in stage.of(ToolUndoneEvent)] == ["ana"]
