"""Suspends runs that only wait for decisions, and brings back into memory those and the ones that an earlier process
left open.

The first decision, and the call that starts with it, wait for nothing that only the model's next turn needs."""

import asyncio
import sqlite3
from dataclasses import dataclass

from agent_kernel.approvals.limits import least
from agent_kernel.log import events, inbox, runs, tool_calls
from agent_kernel.log.events import START, Mark
from agent_kernel.models.base import Model
from agent_kernel.protocol.events import RunEvent
from agent_kernel.protocol.runs import RunResult
from agent_kernel.protocol.views import RunView
from agent_kernel.runtime.runs.lifecycle import environment_of, log_prompt, prepare
from agent_kernel.runtime.runs.specs import limits_text, restored
from agent_kernel.runtime.settings import RunSpec
from agent_kernel.runtime.state.commits import Commit, commit_to
from agent_kernel.runtime.state.history import unanswered_calls
from agent_kernel.runtime.state.limits import Meter
from agent_kernel.runtime.state.repeats import Repeats
from agent_kernel.runtime.state.run import ActiveRun, ConversationResources, StartingPoint
from agent_kernel.runtime.tool_calls.effective_policy import effective_policy, read_stored_policy
from agent_kernel.runtime.tool_calls.script import use_up
from agent_kernel.tools.executor import ToolExecutor


@dataclass(frozen=True, slots=True)
class SuspendedRun:
    """All that is kept of a run that is not in memory; the rest is in the log."""

    run_id: str
    calls: list[str]
    """Of its step, in the model's order: those that no tool message in the log answers."""
    model: Model
    executor: ToolExecutor | None
    result: asyncio.Future[RunResult]
    meter: Meter
    repeats: Repeats
    begun: Mark
    paused: bool
    """The whole run waits for a person: see `ActiveRun.is_paused`."""
    prompted: bool = True


def suspended(run: ActiveRun, result: asyncio.Future[RunResult]) -> SuspendedRun:
    """The part of a run, suspended in this process, that is kept."""
    return SuspendedRun(
        run_id=run.run_id,
        calls=list(run.calls.of_step),
        model=run.model,
        executor=run.executor,
        result=result,
        meter=run.meter,
        repeats=run.repeats,
        begun=run.begun,
        paused=run.is_paused,
    )


async def left_open(
    shared: ConversationResources,
    spec: RunSpec,
    view: RunView,
    executor: ToolExecutor | None,
    result: asyncio.Future[RunResult],
) -> SuspendedRun:
    """As `suspended`, for a run that an earlier process began, or one that is tried again. Raises as `prepare`."""
    row, log = shared.row, shared.runtime.log
    model, now = await prepare(shared, spec)
    shown = view.model_copy(update={"model": model.name, "recorded": model.recorded, "delay": None})
    if now.limits != spec.limits:
        shown = shown.model_copy(update={"budget": least(view.budget, now.limits.budget)})
    if shown != view or now.limits != spec.limits:

        def save(commit: Commit) -> None:
            runs.save_limits(commit.sql, spec.run_id, limits_text(now))
            runs.save_run(commit.sql, shown)
            commit.emit(RunEvent(run_id=spec.run_id, run=shown))

        await commit_to(log, row, save)

    def read(sql: sqlite3.Connection) -> tuple[list[str], bool]:
        return unanswered_calls(sql, row.number), events.has_prompt(sql, row.number, spec.run_id)

    calls, prompted = await log.read(read)
    return SuspendedRun(
        run_id=spec.run_id,
        calls=calls,
        model=model,
        executor=executor,
        result=result,
        meter=Meter.of(shown),
        repeats=Repeats(),
        begun=START,
        paused=shown.paused is not None,
        prompted=prompted,
    )


async def restore(shared: ConversationResources, kept: SuspendedRun) -> ActiveRun:
    """The run as it was. Its history is read when the model is asked again."""
    row, run_id = shared.row, kept.run_id
    stored, view, stored_policy, messages, calls, unknown = await shared.runtime.log.read(
        lambda sql: (
            runs.read_spec(sql, run_id),
            runs.read_run(sql, run_id),
            read_stored_policy(sql, row, run_id),
            inbox.read_kept(sql, row.number, run_id),
            [tool_calls.read_call(sql, row.number, tool_call_id) for tool_call_id in kept.calls],
            tool_calls.unknown_digests(sql, row.number),
        )
    )
    spec = restored(stored, view.prompt)
    policy, _ = effective_policy(shared.runtime.settings, spec, stored_policy)
    start = StartingPoint(
        begun=kept.begun,
        past=shared.runtime.histories.take(row.number),
        meter=kept.meter,
        repeats=kept.repeats,
        prompted=kept.prompted,
        step=kept.calls,
        waiting=[call for call in calls if call.state == "awaiting_approval"],
        messages=messages,
        unknown=unknown,
    )
    run = ActiveRun(shared, spec, kept.model, kept.executor, view, policy, start)
    if run.script.given:
        use_up(run, await shared.runtime.log.read(lambda sql: tool_calls.list_calls(sql, run_id=run_id)))
    if not run.prompted:
        await log_prompt(run, await environment_of(run.executor))
    return run
