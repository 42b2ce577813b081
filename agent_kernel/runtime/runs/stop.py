"""Stops calls and runs: for Stop, Cancel, a new message, a dead kernel, a used up budget of time. Every waiting
future is resolved."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import assert_never

from agent_kernel.errors import IllegalTransition, LogUnavailable
from agent_kernel.log import audit, tool_calls
from agent_kernel.protocol.calls import Outcome
from agent_kernel.protocol.views import RunView, ToolCallView
from agent_kernel.protocol.vocabulary import CallState, DecidedBy, StopCause, standing
from agent_kernel.runtime.state.active_run import ActiveRun
from agent_kernel.runtime.state.commits import Commit
from agent_kernel.runtime.state.run_calls import Interruption
from agent_kernel.runtime.state.spending import budgets_of, seconds_left
from agent_kernel.runtime.tool_calls import transitions
from agent_kernel.runtime.tool_calls.execution import cut_short
from agent_kernel.tools import outcome_texts

logger = logging.getLogger(__name__)
NEW_MESSAGE = "By your new message."
_LOOK_SECONDS = 0.5
"""Between two looks at the time that a run has left."""

Noted = Callable[[Commit, Sequence[ToolCallView]], None]
"""Writes audit entries about the unfinished calls of a run, in the transaction that ends them."""


@dataclass(frozen=True, slots=True)
class Stop:
    """Why something is ended, and by whom; `by` is `None` without a person, as when a kernel has died."""

    reason: str = "By you."
    by: DecidedBy | None = "user"
    decided_by: str | None = None
    replaced: bool = False
    """Whether calls that have not started end as `superseded`, because another run replaces this one."""
    notice: str = ""
    """A notice for the run's readers, where they may not know the reason."""


BY_A_PERSON = Stop()
"""By a person without a name."""


def sent_away(decided_by: str | None) -> Stop:
    return Stop("The user has sent this client away.", decided_by=decided_by)


def stop_for(cause: StopCause) -> Stop:
    """The stop that a kernel asks for, which knows the notebook's cells."""
    match cause:
        case "script":
            return Stop(by="script")
        case "cell_run_again":
            notice = "Stopped, because its cell was run again."
            return Stop("Its cell was run again.", replaced=True, notice=notice)
        case "cell_deleted":
            return Stop("Its cell was deleted.", notice="Stopped, because its cell was deleted.")
        case "interrupted":
            return Stop("The user interrupted the kernel.", notice="Stopped, because the kernel was interrupted.")
        case _:
            assert_never(cause)


async def stop_run(run: ActiveRun, stop: Stop) -> None:
    """Stop a run: waiting calls are cancelled, running ones interrupted, the model is cut off."""
    if run.stopping is not None:
        return
    run.stopping = stop.reason
    if stop.notice:
        run.notify(stop.notice)
    run.cut_off_model()

    def noted(commit: Commit, unfinished: Sequence[ToolCallView]) -> None:
        note(commit, run.view, stop, [call.tool_call_id for call in unfinished], whole_run=True)

    try:
        await withdraw(run, "superseded" if stop.replaced else "cancelled", stop.reason, noted)
    except LogUnavailable:
        run.stopping = None  # it can be asked for again
        raise
    run.waits.resolve_all(None)
    await asyncio.gather(*(cut_short(run, running, None) for running in run.calls.executions.values()))


async def supersede(run: ActiveRun, decided_by: str | None) -> None:
    """A person's new message takes the place of the calls that have not started."""

    def noted(commit: Commit, unfinished: Sequence[ToolCallView]) -> None:
        if replaced := [call.tool_call_id for call in unfinished if call.state != "executing"]:
            audit.record_message(commit.sql, run.view, decided_by, replaced)

    await withdraw(run, "superseded", NEW_MESSAGE, noted)


async def withdraw(run: ActiveRun, target: CallState, reason: str, noted: Noted | None = None) -> list[ToolCallView]:
    """End the calls that have not started, and wake their tasks. `noted` is called first."""

    def work(commit: Commit) -> list[ToolCallView]:
        ours = tool_calls.list_calls(commit.sql, run_id=run.run_id)
        unfinished = [call for call in ours if call.state in tool_calls.UNFINISHED]
        if noted is not None:
            noted(commit, unfinished)
        return [_end(commit, call, target, reason) for call in unfinished if call.state != "executing"]

    ended = await run.commit(work)
    for call in ended:
        run.calls.decisions.resolve(call.approval_id, call)
    for tool_call_id in run.calls.answers.waiting():
        run.calls.answers.resolve(tool_call_id, Outcome("cancelled", "The question was withdrawn."))
    return ended


async def cancel_call(run: ActiveRun, tool_call_id: str, stop: Stop) -> None:
    """Cancel one call, wherever it is. Raises `IllegalTransition` if it has ended."""
    if tool_call_id in run.calls.answers.waiting() or tool_call_id in run.calls.executions:
        await run.commit(lambda commit: note(commit, run.view, stop, [tool_call_id]))
        if run.calls.answers.resolve(tool_call_id, Outcome("cancelled", "The user skipped the question.")):
            return
        if (running := run.calls.executions.get(tool_call_id)) is not None:
            await cut_short(run, running, None)
        return

    def work(commit: Commit) -> ToolCallView:
        call = tool_calls.read_call(commit.sql, commit.number, tool_call_id)
        note(commit, run.view, stop, [tool_call_id])
        return _end(commit, call, "cancelled", stop.reason)

    ended = await run.commit(work)
    run.calls.decisions.resolve(ended.approval_id, ended)


def note(commit: Commit, run: RunView, stop: Stop, tool_call_ids: Sequence[str], *, whole_run: bool = False) -> None:
    """Write the audit entry of a stop, in the transaction that begins it."""
    if stop.by is not None:
        audit.record_stop(commit.sql, run, tool_call_ids, whole_run=whole_run, by=stop.by, decided_by=stop.decided_by)


def _end(commit: Commit, call: ToolCallView, target: CallState, reason: str) -> ToolCallView:
    if call.state in ("executing", *_FINAL):
        raise IllegalTransition(f"There is nothing to cancel. {standing(call.state)}")
    return transitions.settle(commit, call.tool_call_id, target, _result_text(target, reason), reason=reason)


def _result_text(target: CallState, reason: str) -> str:
    """The result, for the model, of a call that did not start."""
    if target == "superseded":
        return outcome_texts.superseded() if reason == NEW_MESSAGE else outcome_texts.run_again()
    return outcome_texts.cancelled_before_start(reason)


def what_ran(calls: Sequence[ToolCallView]) -> str:
    """Which calls of a run that ends now have run and which have not, as further sentences."""
    not_begun = tuple(state for state in tool_calls.UNFINISHED if state != "executing")
    kinds = (("Ran", ("success", "error")), ("Cut off", ("executing", "unknown")), ("Did not run", not_begun))
    told = ""
    for words, states in kinds:
        if names := [call.tool_name for call in calls if call.state in states]:
            told += f" {words}: {', '.join(names)}."
    return told


_FINAL = frozenset(state for state, targets in tool_calls.NEXT.items() if not targets)


@asynccontextmanager
async def limited_in_time(run: ActiveRun) -> AsyncIterator[None]:
    """Enforces the time budget of a run: interrupts its calls and the model, and cancels calls that have not begun. The
    run itself continues to its next model call, and is paused there as at every other limit."""
    if run.view.paused is None:
        run.meter.go_on()
    watching = run.outside_graph(_watch_time(run), f"time limit of {run.run_id}")
    try:
        yield
    finally:
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)


async def _watch_time(run: ActiveRun) -> None:
    ended = True
    while (left := seconds_left(budgets_of(run.view, run.meter))) is not None:
        seconds, why = left
        if seconds <= 0 and run.out_of_time is None and not (run.meter.stands or run.is_ending):
            run.out_of_time, ended = why, False
        if not ended and run.out_of_time is not None and not run.is_ending:
            ended = await _ended_all(run, run.out_of_time)
        # Looks again before the time is up, since that of waits does not count, and a person may add to it.
        await asyncio.sleep(min(seconds, _LOOK_SECONDS) if seconds > 0 else _LOOK_SECONDS)


async def _ended_all(run: ActiveRun, why: str) -> bool:
    """Whether all calls of the run were ended. A call that could not be does not begin either: see
    `ActiveRun.halted`."""
    run.cut_off_model()
    cutting = [cut_short(run, one, Interruption(why)) for one in run.calls.executions.values()]
    faults = [
        one
        for one in await asyncio.gather(withdraw(run, "cancelled", why), *cutting, return_exceptions=True)
        if isinstance(one, Exception)
    ]
    for fault in faults:
        logger.error("A call of %s could not be ended", run.run_id, exc_info=fault)
    return not faults
