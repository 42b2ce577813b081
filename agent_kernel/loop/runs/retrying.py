"""A run that ended because the model failed goes on from where it was: the same run, with the history that it had."""

from agent_kernel.errors import AlreadyDecided
from agent_kernel.log import journal, runs
from agent_kernel.log.runs import ConversationRow
from agent_kernel.log.store import Log
from agent_kernel.loop.run import Commit
from agent_kernel.protocol.events import MessageEvent, RunEvent
from agent_kernel.protocol.views import RunView


def refused(run_id: str, why: str) -> AlreadyDecided:
    return AlreadyDecided(f"This run can't be tried again: {why}.", {"run_id": run_id})


async def reopen(log: Log, row: ConversationRow, run_id: str) -> RunView:
    """Have the run's row say that it goes on. What the model had not said to its end is taken back, because it will be
    asked again. Of two who ask, the first does. Raises `UnknownRun`, `AlreadyDecided`."""

    def work(commit: Commit) -> RunView:
        ended = runs.read_run(commit.sql, run_id)
        if ended.status != "error" or ended.error is None or ended.error.code != "LLM_ERROR":
            raise refused(run_id, "it did not end because the model failed")
        for message_id in journal.unfinished_messages(commit.sql, commit.number, run_id):
            commit.emit(MessageEvent(run_id=run_id, message_id=message_id, role="assistant", content=""))
        again = ended.model_copy(update={"status": "running", "ended_at": None, "error": None})
        runs.save_run(commit.sql, again)
        commit.emit(RunEvent(run_id=run_id, run=again))
        return again

    return await log.write(lambda transaction: work(Commit(transaction, row)))
