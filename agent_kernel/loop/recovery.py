"""What an earlier process left open is closed honestly when the log is opened again."""

from agent_kernel.log import ledger, runs
from agent_kernel.log.store import Log, Transaction
from agent_kernel.loop import calls, tool_messages
from agent_kernel.loop.results import add_tool_messages, unanswered_calls
from agent_kernel.loop.run import Commit
from agent_kernel.loop.settings import BrainSettings
from agent_kernel.protocol.events import CompleteEvent, RunEvent, utc_now
from agent_kernel.protocol.views import ErrorView, RunView

RESTARTED = "The server restarted while this run was under way."


async def close_interrupted_runs(log: Log, settings: BrainSettings) -> int:
    """Calls that were executing become `unknown`, waiting ones `cancelled`; the model will hear of each. Returns the
    number of runs that were closed."""

    def work(transaction: Transaction) -> int:
        unfinished = runs.unfinished_runs(transaction.sql)
        for run in unfinished:
            _close(transaction, run, settings)
        return len(unfinished)

    return await log.write(work)


def _close(transaction: Transaction, run: RunView, settings: BrainSettings) -> None:
    row = runs.read_conversation(transaction.sql, run.conversation_id)
    commit = Commit(transaction, row)
    for call in ledger.list_calls(commit.sql, conversation=row.number, run_id=run.run_id):
        if call.state == "executing":
            calls.settle(commit, call.tool_call_id, "unknown", tool_messages.unknown(RESTARTED), reason=RESTARTED)
        elif call.state in ledger.UNFINISHED:
            text = tool_messages.cancelled_before_start(RESTARTED)
            calls.settle(commit, call.tool_call_id, "cancelled", text, reason=RESTARTED)
    open_calls = unanswered_calls(commit.sql, row.number)
    add_tool_messages(commit.sql, row.number, run.run_id, open_calls, settings.step_characters)
    error = ErrorView(code="INTERNAL_ERROR", message=f"{RESTARTED} Send the prompt again to go on.")
    ended = run.model_copy(update={"status": "error", "ended_at": utc_now(), "error": error})
    runs.save_run(commit.sql, row.number, ended)
    commit.emit(CompleteEvent(run_id=run.run_id, message_id=None, finish_reason="error", usage=run.usage, error=error))
    commit.emit(RunEvent(run_id=run.run_id, run=ended))
