"""Recovery of runs that an earlier process left open: made ready to continue, or ended where the kernel is gone."""

from agent_kernel.log import events, runs
from agent_kernel.log.runs import ConversationRow
from agent_kernel.log.store import Log
from agent_kernel.protocol.events import MessageEvent, utc_now
from agent_kernel.protocol.ids import new_message_id
from agent_kernel.protocol.runs import RunResult
from agent_kernel.protocol.views import ErrorView, RunView
from agent_kernel.protocol.vocabulary import ErrorCode
from agent_kernel.runtime.runs.lifecycle import write_end
from agent_kernel.runtime.settings import RuntimeSettings
from agent_kernel.runtime.state.commits import Commit, commit_to
from agent_kernel.runtime.state.history import unanswered_calls
from agent_kernel.runtime.tool_calls import transitions
from agent_kernel.runtime.turns.messages import move_unread_messages, read_tool_messages

RESTARTED = "The server restarted while this call was running."
UNREADABLE = "Another version of Agent Kernel began this run, and this one can't go on with it."
KERNEL_LOST = "The server restarted, and the notebook's kernel is no longer there."


async def interrupted_runs(log: Log) -> list[RunView]:
    """The runs that an earlier process had queued or begun, oldest first, without those of another live server."""
    return await log.write(lambda transaction: runs.take_unfinished(transaction.sql))


async def prepare(log: Log, row: ConversationRow, run: RunView) -> None:
    """Make a run ready to continue: a call that was executing gets an unknown outcome, and is not run again; unfinished
    text and calls of the model are removed, because the model will be asked again."""

    def work(commit: Commit) -> None:
        transitions.settle_all(commit, run.run_id, RESTARTED, None)
        for message_id in events.unfinished_messages(commit.sql, commit.number, run.run_id):
            commit.emit(MessageEvent(run_id=run.run_id, message_id=message_id, role="assistant", content=""))
        transitions.end_unfinished_cards(commit, run.run_id)

    await commit_to(log, row, work)


async def close(
    log: Log,
    row: ConversationRow,
    run: RunView,
    settings: RuntimeSettings,
    reason: str = KERNEL_LOST,
    *,
    code: ErrorCode = "KERNEL_DIED",
) -> RunResult:
    """End a run that can't continue. Every call gets an outcome, and a tool message for the model."""
    # A run that ended because the model failed can be tried again.
    said = reason if code == "LLM_ERROR" else f"{reason} Run the cell again to go on."

    def work(commit: Commit) -> RunResult:
        transitions.settle_all(commit, run.run_id, RESTARTED, reason)
        transitions.end_unfinished_cards(commit, run.run_id)
        open_calls = unanswered_calls(commit.sql, commit.number)
        for body in read_tool_messages(commit.sql, commit.number, open_calls, settings.step_characters):
            events.append_message(commit.sql, commit.number, new_message_id(), run.run_id, body)
        move_unread_messages(commit, run.run_id)
        error = ErrorView(code=code, message=said)
        no_more = {"paused": None, "delay": None}
        ended = run.model_copy(update={"status": "error", "ended_at": utc_now(), "error": error, **no_more})
        return write_end(commit, ended, "error")

    return await commit_to(log, row, work)
