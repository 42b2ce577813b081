"""Interrupts calls: those that exceed the time limit of their tool, and those that are cancelled."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from agent_kernel.errors import KernelGone
from agent_kernel.protocol.views import ToolCallView
from agent_kernel.runtime.state.calls import Cut, Execution
from agent_kernel.runtime.state.run import ActiveRun
from agent_kernel.runtime.tool_calls.queue_position import FIRST_LOOK_SECONDS, LOOK_SECONDS
from agent_kernel.tools.executor import ToolExecutor

_ANSWER_SECONDS = 2.0
"""How long the executor has to answer whether a call has begun. Without an answer the call counts as begun."""


def limit_of(run: ActiveRun, tool_name: str) -> float | None:
    """Seconds that a call of this tool may run: the smaller of the tool's own limit and the site's."""
    declared = run.registry.declaration(tool_name).timeout
    limits = [one for one in (declared, run.settings.tool_timeouts.get(tool_name)) if one is not None]
    return min(limits, default=None)


@asynccontextmanager
async def timed(run: ActiveRun, call: ToolCallView, executor: ToolExecutor, running: Execution) -> AsyncIterator[None]:
    """Limits the time in which the executor has a call."""
    seconds = limit_of(run, call.tool_name)
    if seconds is None:
        yield
        return
    watch = asyncio.create_task(_watch(run, executor, running, seconds), name=f"limit of {call.tool_call_id}")
    try:
        yield
    finally:
        watch.cancel()
        await asyncio.gather(watch, return_exceptions=True)


async def _watch(run: ActiveRun, executor: ToolExecutor, running: Execution, seconds: float) -> None:
    first = min(FIRST_LOOK_SECONDS, seconds)
    await asyncio.sleep(first)
    left = seconds - first
    while await _is_behind(executor, running):  # waiting for the user's own cell does not count
        left = seconds
        await asyncio.sleep(LOOK_SECONDS)
    await asyncio.sleep(left)
    await cut_short(run, running, Cut(f"Timed out after {seconds:g} s.", failed=True))


async def _is_behind(executor: ToolExecutor, running: Execution) -> bool:
    try:
        async with asyncio.timeout(_ANSWER_SECONDS):
            return await executor.waiting_behind(running.approval_id) is not None
    except (TimeoutError, KernelGone):
        return False


async def cut_short(run: ActiveRun, running: Execution, cut: Cut | None) -> None:
    """Interrupt a running call, and give it some time to end before its outcome counts as unknown. `cut` is the reason
    where no person asked for it; the first reason stays."""
    executor = run.executor
    if executor is None:
        return
    running.cut_for(cut)
    await executor.interrupt(running.approval_id)
    await asyncio.wait({running.task}, timeout=run.settings.stop_seconds)
    running.task.cancel()
