"""Enforces the time budget of a run: interrupts its calls and the model, and cancels calls that have not begun.

The run itself continues to its next model call, and is paused there as at every other limit.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from agent_kernel.errors import LogUnavailable
from agent_kernel.runtime.runs.stop import withdraw
from agent_kernel.runtime.state.active_run import ActiveRun
from agent_kernel.runtime.state.run_calls import Interruption
from agent_kernel.runtime.state.spending import seconds_left
from agent_kernel.runtime.tool_calls.watch import cut_short


@asynccontextmanager
async def limited_in_time(run: ActiveRun) -> AsyncIterator[None]:
    """Enforces the limit while a run goes."""
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
