"""SIGINT while a call runs: it stops the call, never the cell that waits for it and never the kernel."""

import asyncio
import contextlib
import signal
import threading
from collections.abc import Awaitable, Iterator
from dataclasses import dataclass
from types import FrameType
from typing import Any


class InterruptGate:
    """Takes SIGINT over on the main thread for the time of one call.

    While the gate is open a signal raises KeyboardInterrupt in the call's code, or cancels its task where that code
    is waiting on the event loop. ipykernel's own handler for async cells only sets a flag that a busy loop never
    reads. A signal that comes while the call is prepared waits for the gate to open; one that comes when its code has
    ended, but the call is not yet put away, is dropped.
    """

    def __init__(self) -> None:
        self._open = False
        self._task: asyncio.Task[Any] | None = None
        self._pending = False
        self.interrupted = False

    @contextlib.contextmanager
    def installed(self) -> Iterator[None]:
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        previous = signal.signal(signal.SIGINT, self._handle)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, previous)

    @contextlib.contextmanager
    def open(self, task: asyncio.Task[Any] | None = None) -> Iterator[None]:
        before = self._open, self._task
        try:
            self._open, self._task = True, task
            if self._pending:
                self._pending = False
                self._stop()
            yield
        finally:
            self._open, self._task = before

    def _handle(self, _signal: int, _frame: FrameType | None) -> None:
        self.interrupted = True
        if self._open:
            self._stop()
        else:
            self._pending = True

    def pass_on(self) -> None:
        """There was no call after all: a signal that came meanwhile is for whoever else listens."""
        if self.interrupted:
            signal.raise_signal(signal.SIGINT)

    def _stop(self) -> None:
        task = self._task
        if task is None or _is_current(task):
            raise KeyboardInterrupt
        task.get_loop().call_soon_threadsafe(task.cancel)


def _is_current(task: asyncio.Task[Any]) -> bool:
    try:
        return asyncio.current_task() is task
    except RuntimeError:
        return False


def run_beside(awaitable: Awaitable[Any]) -> Any:
    """Run an awaitable to its end on a loop of its own, also where this thread's loop is running.

    A cell that waits with `run.wait()` blocks the kernel's loop, so the call can't use it.
    """
    try:
        outer: asyncio.AbstractEventLoop | None = asyncio.get_running_loop()
    except RuntimeError:
        outer = None
    outer_task = asyncio.current_task(outer) if outer is not None else None
    if outer is not None and outer_task is not None:
        asyncio._leave_task(outer, outer_task)
    asyncio._set_running_loop(None)
    loop = asyncio.new_event_loop()
    try:
        task = loop.create_task(shielded(awaitable))
        return loop.run_until_complete(task)
    finally:
        try:
            _close(loop)
        finally:
            asyncio._set_running_loop(outer)
            if outer is not None and outer_task is not None:
                asyncio._enter_task(outer, outer_task)


@dataclass(frozen=True, slots=True)
class Escaped:
    """What a task may not raise: asyncio would let it end the kernel's event loop."""

    error: KeyboardInterrupt | SystemExit


async def shielded(awaitable: Awaitable[Any]) -> Any:
    """The awaitable's value, or `Escaped`."""
    try:
        return await awaitable
    except (KeyboardInterrupt, SystemExit) as error:
        return Escaped(error)


def _close(loop: asyncio.AbstractEventLoop) -> None:
    rest = asyncio.all_tasks(loop)
    for task in rest:
        task.cancel()
    if rest:
        loop.run_until_complete(asyncio.gather(*rest, return_exceptions=True))
    loop.run_until_complete(loop.shutdown_asyncgens())
    loop.close()
