"""Taking back what a call of a file tool wrote. The model is told, or it would build on a file that is no more."""

from agent_kernel.errors import IllegalTransition, ToolFailed, UndoRefused
from agent_kernel.log import call_notes, trail
from agent_kernel.loop.commits import Commit
from agent_kernel.loop.run import ActiveRun
from agent_kernel.loop.turns.model_step import take_message
from agent_kernel.protocol.events import ToolUndoneEvent
from agent_kernel.protocol.views import ToolCallView
from agent_kernel.tools.arguments import parse


async def undo(run: ActiveRun, call: ToolCallView, decided_by: str | None) -> None:
    """Raises `IllegalTransition` for a call that did not succeed, `UndoRefused` where the file was changed since."""
    if call.state != "success":
        raise IllegalTransition(f"The call {call.tool_call_id} is {call.state}: there is nothing to undo.")
    if run.setting.hands is None:
        raise UndoRefused("This conversation has no kernel.", call.tool_call_id)
    try:
        await run.setting.hands.undo(call.approval_id)
    except ToolFailed as refusal:
        raise UndoRefused(str(refusal), call.tool_call_id) from None

    def work(commit: Commit) -> None:
        call_notes.set_undone(commit.sql, commit.number, call.tool_call_id)
        trail.record_undo(commit.sql, call, decided_by)
        commit.emit(ToolUndoneEvent(run_id=run.view.run_id, tool_call_id=call.tool_call_id, decided_by=decided_by))

    await run.commit(work)
    path = parse(call.tool_input).get("path")
    await take_message(run, f"I have undone your {call.tool_name} call: {path} is as it was before.")
