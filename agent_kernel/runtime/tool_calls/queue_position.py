"""Shows "queued behind cell N" on a call's card while the call waits for the user's own cell."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from agent_kernel.errors import KernelGone
from agent_kernel.log import tool_calls
from agent_kernel.protocol.events import ToolStateEvent
from agent_kernel.protocol.views import ToolCallView
from agent_kernel.runtime.state.commits import Commit
from agent_kernel.runtime.state.run import ActiveRun
from agent_kernel.tools.executor import ToolExecutor

FIRST_LOOK_SECONDS = 0.3
"""A call that begins sooner is never shown as queued."""
LOOK_SECONDS = 0.5


@asynccontextmanager
async def showing_queue_position(run: ActiveRun, call: ToolCallView, executor: ToolExecutor) -> AsyncIterator[None]:
    """Shows the position while a call executes."""
    looks: list[asyncio.Task[None]] = []

    def look() -> None:
        looks.append(asyncio.create_task(_watch(run, call, executor), name=f"wait of {call.tool_call_id}"))

    # A timer, because most calls end before a task would have run.
    timer = asyncio.get_running_loop().call_later(FIRST_LOOK_SECONDS, look)
    try:
        yield
    finally:
        timer.cancel()
        for task in looks:
            task.cancel()
        if looks:  # an empty gather costs a turn of the event loop
            await asyncio.gather(*looks, return_exceptions=True)


async def _watch(run: ActiveRun, call: ToolCallView, executor: ToolExecutor) -> None:
    shown: int | None = None
    while True:
        try:
            cell = await executor.waiting_behind(call.approval_id)
        except KernelGone:
            return  # the call's own end will report it
        if cell != shown:
            shown = cell
            await _show(run, call, cell)
        if cell is None:
            return
        await asyncio.sleep(LOOK_SECONDS)


async def _show(run: ActiveRun, call: ToolCallView, cell: int | None) -> None:
    def work(commit: Commit) -> None:
        tool_calls.set_waiting(commit.sql, commit.number, call.tool_call_id, cell)
        commit.emit(_state(call, cell))

    await run.commit(work)


def _state(call: ToolCallView, cell: int | None) -> ToolStateEvent:
    return ToolStateEvent(
        run_id=call.run_id,
        tool_call_id=call.tool_call_id,
        tool_name=call.tool_name,
        tool_input=call.tool_input,
        state="executing",
        waiting_behind=cell,
    )
