"""Retry of a run that ended because the model failed: the same run continues with its history.

Whether it may is read from the log, so it works after a restart too. Its executor is found anew.
"""

import sqlite3

from agent_kernel.errors import AlreadyDecided
from agent_kernel.log import event_rows, runs
from agent_kernel.log.runs import ConversationRow
from agent_kernel.log.store import Log
from agent_kernel.protocol.events import MessageEvent, RunEvent
from agent_kernel.protocol.views import RunView
from agent_kernel.runtime.runs.specs import restored
from agent_kernel.runtime.settings import RunSpec
from agent_kernel.runtime.state.commits import Commit, commit_to


def failed_run(sql: sqlite3.Connection, conversation: int, run_id: str) -> RunView:
    """The run, if it is the last one of its conversation and ended because the model failed. Raises `UnknownRun`,
    `AlreadyDecided`."""
    ended = runs.read_run(sql, run_id)
    if ended.status != "error" or ended.error is None or ended.error.code != "LLM_ERROR":
        raise _refused(run_id, "it did not end because the model failed")
    if runs.has_open_run(sql, conversation) or event_rows.last_run(sql, conversation) != run_id:
        raise _refused(run_id, "something else was asked for since")
    return ended


async def read_spec(log: Log, row: ConversationRow, run_id: str) -> RunSpec:
    """The run's specification, if it may be tried again. Raises as `failed_run`."""
    view, stored = await log.read(
        lambda sql: (failed_run(sql, row.number, run_id), runs.read_spec(sql, run_id)),
    )
    try:
        return restored(stored, view.prompt)
    except ValueError as error:
        raise _refused(run_id, "another version of Agent Kernel began it") from error


async def reopen(log: Log, row: ConversationRow, run_id: str) -> RunView:
    """Mark the run as running, in this process, and remove the unfinished message of the model, which will be asked
    again. The first of two requests wins. Raises as `failed_run`."""

    def work(commit: Commit) -> RunView:
        ended = failed_run(commit.sql, commit.number, run_id)
        for message_id in event_rows.unfinished_messages(commit.sql, commit.number, run_id):
            commit.emit(MessageEvent(run_id=run_id, message_id=message_id, role="assistant", content=""))
        again = ended.model_copy(update={"status": "running", "ended_at": None, "error": None, "finish_reason": None})
        runs.save_reopened(commit.sql, again)
        commit.emit(RunEvent(run_id=run_id, run=again))
        return again

    return await commit_to(log, row, work)


def _refused(run_id: str, why: str) -> AlreadyDecided:
    return AlreadyDecided(f"This run can't be tried again: {why}.", {"run_id": run_id})
