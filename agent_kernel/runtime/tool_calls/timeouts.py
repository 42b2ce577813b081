"""Interrupts a call that takes longer than its tool may: as Cancel does it."""

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
"""How long the executor has to say whether a call has begun; a kernel that does not answer is taken to be at work."""


def limit_of(run: ActiveRun, tool_name: str) -> float | None:
    """Seconds that a call of this tool may run: the smaller one of what the tool declares and what the site says."""
    declared = run.registry.declaration(tool_name).timeout
    limits = [one for one in (declared, run.settings.tool_timeouts.get(tool_name)) if one is not None]
    return min(limits, default=None)


@asynccontextmanager
async def timed(run: ActiveRun, call: ToolCallView, executor: ToolExecutor, running: Execution) -> AsyncIterator[None]:
    """For the time in which the executor has a call."""
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
    while await _is_behind(executor, running):  # the time in which it waits for the user's own cell is not its own
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
    """Interrupt a running call; give it a while to end before its outcome counts as unknown. `cut` says why, where
    nobody has asked for it. The first reason stays."""
    executor = run.executor
    if executor is None:
        return
    running.cut_for(cut)
    await executor.interrupt(running.approval_id)
    await asyncio.wait({running.task}, timeout=run.settings.stop_seconds)
    running.task.cancel()
