"""Runs that go on: those that an earlier process left open are brought back into memory, or ended where the kernel is
gone; and one that ended because the model failed is tried again with its history, which the log decides."""

import sqlite3

from agent_kernel.approvals.limits import least
from agent_kernel.errors import AlreadyDecided
from agent_kernel.log import event_rows, message_rows, runs, tool_calls
from agent_kernel.log.event_rows import START
from agent_kernel.log.runs import ConversationRow
from agent_kernel.log.store import Log
from agent_kernel.protocol.events import MessageEvent, RunEvent
from agent_kernel.protocol.run_results import RunResult
from agent_kernel.protocol.views import ErrorView, RunView
from agent_kernel.protocol.vocabulary import ErrorCode
from agent_kernel.runtime.runs import lifecycle
from agent_kernel.runtime.runs.specs import limits_text, restored
from agent_kernel.runtime.settings import RunSpec, RuntimeSettings
from agent_kernel.runtime.state.active_run import ActiveRun, ConversationResources, StartingPoint
from agent_kernel.runtime.state.commits import Commit, commit_to
from agent_kernel.runtime.state.transcript import unanswered_calls
from agent_kernel.runtime.tool_calls import transitions
from agent_kernel.runtime.tool_calls.effective_policy import effective_policy, read_stored_policy
from agent_kernel.runtime.tool_calls.script_decisions import use_up
from agent_kernel.runtime.turns.tool_messages import move_unread_messages, write_open_answers
from agent_kernel.tools.executor import ToolExecutor

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
        _take_back(commit, run.run_id)
        transitions.end_unfinished_cards(commit, run.run_id)

    await commit_to(log, row, work)


def _take_back(commit: Commit, run_id: str) -> None:
    """Remove the unfinished message of the model, which will be asked again."""
    for message_id in event_rows.unfinished_messages(commit.sql, commit.number, run_id):
        commit.emit(MessageEvent(run_id=run_id, message_id=message_id, role="assistant", content=""))


async def resume(
    shared: ConversationResources, spec: RunSpec, view: RunView, executor: ToolExecutor | None
) -> ActiveRun:
    """The run as it was when its process ended, or when it failed. Raises as `lifecycle.prepare`."""
    row, log = shared.row, shared.runtime.log
    model, now = await lifecycle.prepare(shared, spec)
    now, _, _ = lifecycle.taken_in(now, model, view)
    shown = view.model_copy(update={"model": model.name, "recorded": model.recorded, "delay": None})
    if now.limits != spec.limits:
        shown = shown.model_copy(update={"budget": least(view.budget, now.limits.budget)})
    if shown != view or now.limits != spec.limits:

        def save(commit: Commit) -> None:
            runs.set_in_spec(commit.sql, spec.run_id, "limits", limits_text(now))
            commit.save_run(shown)

        await commit_to(log, row, save)

    def starting_point(sql: sqlite3.Connection) -> StartingPoint:
        return StartingPoint(
            begun=START,
            transcript=shared.runtime.transcripts.take(row.number),
            prompted=message_rows.has_prompt(sql, row.number, spec.run_id),
            step=unanswered_calls(sql, row.number),
            messages=message_rows.read_kept(sql, row.number, spec.run_id),
            unknown=tool_calls.unknown_digests(sql, row.number),
        )

    start, stored = await log.read(lambda sql: (starting_point(sql), read_stored_policy(sql, row, spec.run_id)))
    policy, _ = effective_policy(shared.runtime.settings, now, stored)
    run = ActiveRun(shared, now, model, executor, shown, policy, start)
    await log.read(run.recall)
    if run.script.given:
        use_up(run, await run.read_calls())
    if not run.prompted:
        described = executor if spec.client_call is None else None
        await lifecycle.log_prompt(run, await lifecycle.environment_of(described))
    return run


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
        write_open_answers(commit, run.run_id, settings.step_characters)
        move_unread_messages(commit, run.run_id)
        return lifecycle.write_end(commit, lifecycle.failed(run, ErrorView(code=code, message=said)))

    return await commit_to(log, row, work)


def failed_run(sql: sqlite3.Connection, conversation: int, run_id: str) -> RunView:
    """The run, if it is the last one of its conversation and ended because the model failed. Raises `UnknownRun`,
    `AlreadyDecided`."""
    ended = runs.read_run(sql, run_id)
    if ended.status != "error" or ended.error is None or ended.error.code != "LLM_ERROR":
        raise _refused(run_id, "it did not end because the model failed")
    if runs.has_open_run(sql, conversation) or message_rows.last_run(sql, conversation) != run_id:
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
    """Mark the run as running, in this process. The first of two requests wins. Raises as `failed_run`."""

    def work(commit: Commit) -> RunView:
        ended = failed_run(commit.sql, commit.number, run_id)
        _take_back(commit, run_id)
        again = ended.model_copy(update={"status": "running", "ended_at": None, "error": None, "finish_reason": None})
        runs.save_reopened(commit.sql, again)
        commit.emit(RunEvent(run_id=run_id, run=again))
        return again

    return await commit_to(log, row, work)


def _refused(run_id: str, why: str) -> AlreadyDecided:
    return AlreadyDecided(f"This run can't be tried again: {why}.", {"run_id": run_id})
