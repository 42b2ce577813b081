"""What is kept of a run that only waits for decisions, and the way back: its first decision, and the call that starts
with it, wait for nothing that only the model's next turn needs."""

import asyncio
from dataclasses import dataclass

from agent_kernel.log import events, inbox, runs, tool_calls
from agent_kernel.log.events import Mark
from agent_kernel.log.runs import ConversationRow
from agent_kernel.models.base import Model
from agent_kernel.runtime.runs.resources import Resources
from agent_kernel.runtime.runs.specs import restored
from agent_kernel.runtime.state.history import Past
from agent_kernel.runtime.state.leases import Leases
from agent_kernel.runtime.state.limits import Meter
from agent_kernel.runtime.state.repeats import Repeats
from agent_kernel.runtime.state.run import ActiveRun, RunResult, RunSetting, Step
from agent_kernel.runtime.tool_calls.effective_policy import effective_policy, read_standing
from agent_kernel.tools.executor import ToolExecutor


@dataclass(frozen=True, slots=True)
class SuspendedRun:
    """All that is kept; the rest is in the log."""

    run_id: str
    calls: list[str]
    """Of its step, in the model's order: those that no tool message in the log answers."""
    model: Model
    executor: ToolExecutor | None
    result: asyncio.Future[RunResult]
    meter: Meter
    repeats: Repeats
    mark: Mark
    paused: bool
    """The whole run waits for a person: see `ActiveRun.is_paused`."""


def suspended(run: ActiveRun, result: asyncio.Future[RunResult]) -> SuspendedRun:
    setting = run.setting
    return SuspendedRun(
        run_id=run.view.run_id,
        calls=run.step.calls,
        model=setting.model,
        executor=setting.executor,
        result=result,
        meter=run.meter,
        repeats=run.repeats,
        mark=run.begun,
        paused=run.person.suspended,
    )


async def take_up(resources: Resources, row: ConversationRow, kept: SuspendedRun, leases: Leases) -> ActiveRun:
    """The run as it was. Its history is read when the model is asked again."""
    run_id = kept.run_id
    stored, view, standing, messages, calls, unknown = await resources.log.read(
        lambda sql: (
            runs.read_spec(sql, run_id),
            runs.read_run(sql, run_id),
            read_standing(sql, row, run_id),
            inbox.read_kept(sql, row.number, run_id),
            [tool_calls.read_call(sql, row.number, tool_call_id) for tool_call_id in kept.calls],
            tool_calls.unknown_digests(sql, row.number),
        )
    )
    spec = restored(stored, view.prompt)
    policy, _ = effective_policy(resources.settings, spec, standing)
    setting = RunSetting(
        row,
        resources.log,
        resources.settings,
        kept.model,
        policy,
        kept.executor,
        resources.attended,
        leases,
        resources.tasks.context,
        resources.active,
    )
    run = ActiveRun(spec, setting, view)
    run.meter, run.repeats, run.begun, run.prompted = kept.meter, kept.repeats, kept.mark, True
    run.step, run.inbox, run.open.unknown = Step(kept.calls), messages, unknown
    run.past = resources.histories.take(row.number)
    run.open.asked = {call.approval_id: call for call in calls if call.state == "awaiting_approval"}
    return run


async def keep_history(resources: Resources, run: ActiveRun, upto: Mark | None = None) -> None:
    """Keep what a run knows of its conversation, for the next run or for when this one is taken up."""
    number = run.setting.conversation.number
    if run.past is not None:
        resources.histories.keep(number, run.past)
        return
    if upto is None:
        upto = await resources.log.read(lambda sql: events.mark(sql, number))
    resources.histories.keep(number, Past(run.history[1:], upto, run.window))
