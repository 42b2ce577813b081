"""Runs calls of asynchronous read-only tools side by side on one event loop.

Other calls run one after another: they may need the main thread for themselves, or change what the next one reads.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from agent_kernel.notebook.execution.capture import OutputCapture
from agent_kernel.notebook.execution.interrupts import own_signal
from agent_kernel.notebook.execution.late_displays import current_displays
from agent_kernel.notebook.execution.mailbox import Entry, Mailbox
from agent_kernel.tools.scheduler import READ_ONLY_AT_ONCE


class PerCallStreams:
    """Separates the outputs of several calls. A child process's output goes to the call that began first."""

    def __init__(self) -> None:
        self.captures: list[OutputCapture] = []

    def current(self) -> OutputCapture:
        """The capture of the call whose code is running."""
        displays = current_displays.get()
        if displays is not None:
            return displays.capture
        return next((capture for capture in self.captures if not capture.closed), self.captures[0])


async def run_beside_others(
    mailbox: Mailbox,
    first: Entry,
    fits: Callable[[Entry], bool],
    begin: Callable[[Entry], Coroutine[Any, Any, None]],
) -> None:
    """Run the first call, and with it those that arrive while any of them runs, up to ten in all.

    There is a limit because the user's own cells wait behind them.
    """
    loop = asyncio.get_running_loop()
    arrived = asyncio.Event()
    running: set[asyncio.Task[None]] = set()

    async def run(entry: Entry) -> None:
        task = loop.create_task(begin(entry), name=f"call {entry.call.approval_id}")
        running.add(task)
        await asyncio.sleep(0)  # a task that is cancelled before it has started reports no end

        def stop() -> None:
            if len(running) == 1:
                own_signal.send()  # also interrupts code that does not await
            else:
                loop.call_soon_threadsafe(task.cancel)

        entry.stop = stop

    begun = 1

    def wake() -> None:
        loop.call_soon_threadsafe(arrived.set)

    with mailbox.listening(wake):
        try:
            await run(first)
            while running:
                arrived.clear()
                while begun < READ_ONLY_AT_ONCE and (entry := mailbox.claim_beside(fits)) is not None:
                    await run(entry)
                    begun += 1
                news = loop.create_task(arrived.wait())
                try:
                    await asyncio.wait({*running, news}, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    news.cancel()
                running.difference_update([task for task in running if task.done()])
        finally:
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)
