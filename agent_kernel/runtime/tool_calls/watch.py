"""Watches a call while the executor has it: shows "queued behind cell N", limits its time, and interrupts it."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from math import inf

from agent_kernel.errors import KernelGone
from agent_kernel.log import tool_calls
from agent_kernel.protocol.views import ToolCallView
from agent_kernel.runtime.state.active_run import ActiveRun
from agent_kernel.runtime.state.commits import Commit
from agent_kernel.runtime.state.run_calls import Execution, Interruption
from agent_kernel.runtime.tool_calls.transitions import show_queue_position
from agent_kernel.tools.executor import CallExecutor

logger = logging.getLogger(__name__)
FIRST_LOOK_SECONDS = 0.3
"""A call that begins sooner is never shown as queued."""
LOOK_SECONDS = 0.5
LONGEST_PAUSE = 16.0
"""Between two looks for a call that is behind nothing: it runs, or has not reached the kernel yet."""
_ANSWER_SECONDS = 2.0
"""How long the executor has to answer where a call is. Without an answer the call counts as begun."""


def limit_of(run: ActiveRun, tool_name: str) -> float:
    """Seconds that a call of this tool may run: the smaller of the tool's own limit and the site's."""
    limits = (run.registry.declaration(tool_name).timeout, run.settings.tool_timeouts.get(tool_name))
    return min((one for one in limits if one is not None), default=inf)


@asynccontextmanager
async def watched(
    run: ActiveRun, call: ToolCallView, executor: CallExecutor, running: Execution
) -> AsyncIterator[None]:
    """Watches a call while the block waits for it."""
    work = _watch(run, call, executor, running)
    watching = asyncio.create_task(work, name=f"watch over {call.tool_call_id}")
    try:
        yield
    finally:
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)


async def _watch(run: ActiveRun, call: ToolCallView, executor: CallExecutor, running: Execution) -> None:
    """The time in which the call waits for a cell does not count."""
    now, limit = asyncio.get_running_loop().time, limit_of(run, call.tool_name)
    shown: int | None = None
    pause, due = LOOK_SECONDS, now() + limit
    await asyncio.sleep(min(FIRST_LOOK_SECONDS, limit))
    while True:
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                cell = await executor.waiting_behind(call.approval_id)
            if cell != shown:
                await _show(run, call, cell)
        except KernelGone:
            return  # the call's own end will report it
        except TimeoutError:
            pass
        except Exception:  # the limit holds, whatever is wrong with a look
            logger.exception("It is not known behind what the call %s waits", call.tool_call_id)
        else:
            if cell is not None:
                pause, due = LOOK_SECONDS, now() + limit
            elif shown is not None:
                pause = inf  # it has begun
            shown = cell
        if now() >= due:
            break
        await asyncio.sleep(min(pause, due - now()))
        pause = min(2 * pause, LONGEST_PAUSE)
    await cut_short(run, running, Interruption(f"Timed out after {limit:g} s.", failed=True))


async def _show(run: ActiveRun, call: ToolCallView, cell: int | None) -> None:
    def work(commit: Commit) -> None:
        tool_calls.set_waiting(commit.sql, commit.number, call.tool_call_id, cell)
        show_queue_position(commit, call, cell)

    await run.commit(work)


async def cut_short(run: ActiveRun, running: Execution, interruption: Interruption | None) -> None:
    """Interrupt a running call, and give it some time to end before its outcome counts as unknown. `interruption` has
    the reason where no person asked for it; the first reason stays."""
    running.interruption = running.interruption or interruption
    try:
        await running.executor.interrupt(running.approval_id)
    except Exception:  # a fault of an executor keeps no call from ending
        logger.exception("The executor did not interrupt %s", running.approval_id)
    await asyncio.wait({running.task}, timeout=run.settings.stop_seconds)
    running.task.cancel()
