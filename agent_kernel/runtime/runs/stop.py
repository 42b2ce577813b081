"""Stops calls and runs: for Stop, Cancel, a new message, a dead kernel, a used up budget of time. Every waiting
future is resolved."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import assert_never

from agent_kernel.errors import IllegalTransition, LogUnavailable
from agent_kernel.log import tool_calls
from agent_kernel.log.audit import entries
from agent_kernel.protocol.calls import Outcome
from agent_kernel.protocol.views import RunView, ToolCallView
from agent_kernel.protocol.vocabulary import CallState, DecidedBy, StopCause
from agent_kernel.runtime.state.active_run import ActiveRun
from agent_kernel.runtime.state.commits import Commit
from agent_kernel.runtime.state.run_calls import Interruption
from agent_kernel.runtime.state.spending import seconds_left
from agent_kernel.runtime.tool_calls import transitions
from agent_kernel.runtime.tool_calls.watch import cut_short
from agent_kernel.tools import outcome_texts

NEW_MESSAGE = "By your new message."

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
    run.waits.wake()
    await asyncio.gather(*(interrupt(run, tool_call_id) for tool_call_id in run.calls.running()))


async def supersede(run: ActiveRun, decided_by: str | None) -> None:
    """A person's new message takes the place of the calls that have not started."""

    def noted(commit: Commit, unfinished: Sequence[ToolCallView]) -> None:
        if replaced := [call.tool_call_id for call in unfinished if call.state != "executing"]:
            entries.record_message(commit.sql, run.view, decided_by, replaced)

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
        run.calls.resolve_decision(call)
    for tool_call_id in run.calls.unanswered:
        run.calls.answer(tool_call_id, Outcome("cancelled", "The question was withdrawn."))
    return ended


async def cancel_call(run: ActiveRun, tool_call_id: str, stop: Stop) -> None:
    """Cancel one call, wherever it is. Raises `IllegalTransition` if it has ended."""
    asked = tool_call_id in run.calls.unanswered
    if asked or tool_call_id in run.calls.running():
        await run.commit(lambda commit: note(commit, run.view, stop, [tool_call_id]))
        if not run.calls.answer(tool_call_id, Outcome("cancelled", "The user skipped the question.")):
            await interrupt(run, tool_call_id)
        return

    def work(commit: Commit) -> ToolCallView:
        call = tool_calls.read_call(commit.sql, commit.number, tool_call_id)
        note(commit, run.view, stop, [tool_call_id])
        return _end(commit, call, "cancelled", stop.reason)

    ended = await run.commit(work)
    run.calls.resolve_decision(ended)


def note(commit: Commit, run: RunView, stop: Stop, tool_call_ids: Sequence[str], *, whole_run: bool = False) -> None:
    """Write the audit entry of a stop, in the transaction that begins it."""
    if stop.by is not None:
        entries.record_stop(commit.sql, run, tool_call_ids, whole_run=whole_run, by=stop.by, decided_by=stop.decided_by)


async def interrupt(run: ActiveRun, tool_call_id: str) -> None:
    """Interrupt a running call at a person's request."""
    execution = run.calls.execution(tool_call_id)
    if execution is not None:
        await cut_short(run, execution, None)


def _end(commit: Commit, call: ToolCallView, target: CallState, reason: str) -> ToolCallView:
    if call.state in ("executing", *_FINAL):
        raise IllegalTransition(f"The call {call.tool_call_id} is {call.state}: there is nothing to cancel.")
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
    limit = _TimeLimit(run)
    run.meter.watch(limit.arm)
    if run.view.paused is None:
        run.meter.go_on()
    limit.arm()
    try:
        yield
    finally:
        run.meter.watch(None)
        await limit.aclose()


class _TimeLimit:
    def __init__(self, run: ActiveRun) -> None:
        self._run = run
        self._timer: asyncio.TimerHandle | None = None
        self._ending: asyncio.Task[None] | None = None

    def arm(self) -> None:
        """Set the timer for the remaining time, unless the meter is paused."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        left = seconds_left(self._run.view, self._run.meter)
        if left is not None and not self._run.meter.stands:
            self._timer = asyncio.get_running_loop().call_later(max(0.0, left[0]), self._due)

    def _due(self) -> None:
        self._timer = None
        left = seconds_left(self._run.view, self._run.meter)
        if left is None or self._run.is_ending:
            return
        if left[0] > 0:
            self.arm()
        elif self._ending is None or self._ending.done():
            self._run.out_of_time = left[1]
            self._ending = self._run.outside_graph(self._end_all(), f"time limit of {self._run.run_id}")

    async def _end_all(self) -> None:
        run = self._run
        why = run.out_of_time or ""
        run.cut_off_model()
        running = run.calls.executions()
        cutting = [asyncio.create_task(cut_short(run, one, Interruption(why)), name="cut short") for one in running]
        try:
            await withdraw(run, "cancelled", why)
        except LogUnavailable:
            pass  # calls that could not be ended do not begin either: see `ActiveRun.halted`
        finally:
            await asyncio.gather(*cutting)

    async def aclose(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._ending is not None:
            self._ending.cancel()
            await asyncio.gather(self._ending, return_exceptions=True)
