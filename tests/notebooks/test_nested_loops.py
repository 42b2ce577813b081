"""A cell that waits for a run turns its event loop; so does a call in that run which waits for another one."""

import asyncio
import contextvars
from typing import Any

from agent_kernel.notebook.execution.call_interrupts import run_on_this_loop


def test_what_belongs_to_the_waiting_cell_runs_after_it_though_a_call_in_it_waits_too() -> None:
    cells_own = contextvars.copy_context()
    order: list[str] = []
    faults: list[dict[str, Any]] = []

    async def call() -> None:
        loop = asyncio.get_running_loop()
        going_on = loop.create_future()

        def go_on() -> None:
            going_on.set_result(None)
            loop.call_soon(order.append, "behind the call")

        loop.call_soon(go_on)
        await going_on
        loop.call_soon(order.append, "the next message", context=cells_own)
        run_on_this_loop(asyncio.sleep(0))
        order.append("the call")

    async def cell() -> None:
        run_on_this_loop(call())
        order.append("the cell")

    async def kernel() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, fault: faults.append(fault))
        await loop.create_task(cell(), context=cells_own)
        await asyncio.sleep(0)

    asyncio.run(kernel())
    assert faults == []
    assert order == ["behind the call", "the call", "the cell", "the next message"]
