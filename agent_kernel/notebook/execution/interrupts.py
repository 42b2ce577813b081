"""Handles SIGINT while a call runs or a cell waits for a run."""

import asyncio
import contextlib
import signal
import threading
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from types import FrameType
from typing import Any

Handler = Callable[[int, FrameType | None], Any]


class RunInterrupted(KeyboardInterrupt):
    """An interrupt of a cell that waited for a run, which was cancelled. Shown in one line, without a traceback."""

    def _render_traceback_(self) -> list[str]:
        return _one_line()


class AwaitInterrupted(asyncio.CancelledError):
    """As `RunInterrupted`, for an `await`: any other error would end the event loop if a task raised it."""

    def _render_traceback_(self) -> list[str]:
        return _one_line()


# The name in the cell's reply is that of any interrupt.
RunInterrupted.__name__ = AwaitInterrupted.__name__ = KeyboardInterrupt.__name__


def _one_line() -> list[str]:
    return ["KeyboardInterrupt: the agent's run was stopped."]


class _OwnSignal:
    """Sends SIGINT to this process, and tells its handler so. Signals that are pending together arrive as one."""

    def __init__(self) -> None:
        self._sent = False

    def send(self) -> None:
        self._sent = True
        main = threading.main_thread().ident
        if main is not None and hasattr(signal, "pthread_kill"):
            signal.pthread_kill(main, signal.SIGINT)
        else:
            import _thread

            _thread.interrupt_main()

    @property
    def is_unseen(self) -> bool:
        """Whether the handler of the call that runs has not run since `send`. False where the call's code has set a
        handler of its own, which may have run."""
        handler = signal.getsignal(signal.SIGINT)
        return self._sent and getattr(handler, "__func__", None) is InterruptGate._handle

    def take(self) -> bool:
        """Whether the signal that has just come was sent by `send`. For the handler."""
        sent, self._sent = self._sent, False
        return sent


own_signal = _OwnSignal()


@contextlib.contextmanager
def handled_by(handler: Handler) -> Iterator[None]:
    """Have `handler` handle SIGINT. Does nothing off the main thread; a handler that was set meanwhile stays."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    previous = signal.signal(signal.SIGINT, handler)
    try:
        yield
    finally:
        if signal.getsignal(signal.SIGINT) == handler:
            signal.signal(signal.SIGINT, previous)


class Notice:
    """Notes an interrupt within `taken`, and also calls the previous handler if `passes_on`."""

    def __init__(self, *, passes_on: bool) -> None:
        self.interrupted = False
        self._passes_on = passes_on
        self._active = False
        self._previous: Any = None

    @contextlib.contextmanager
    def taken(self) -> Iterator[None]:
        self._previous, self._active = signal.getsignal(signal.SIGINT), True
        try:
            with handled_by(self._handle):
                yield
        finally:
            self._active = False

    def _handle(self, number: int, frame: FrameType | None) -> None:
        self.interrupted = self.interrupted or self._active
        if callable(self._previous) and (self._passes_on or not self._active):
            self._previous(number, frame)


class InterruptGate:
    """Handles SIGINT on the main thread during one call.

    While the gate is open a signal raises KeyboardInterrupt in the call's code, or cancels its task while that code
    waits on the event loop. (ipykernel's own handler for async cells only sets a flag, which a busy loop never reads.)
    A signal that comes before the gate is open takes effect when it opens. One of the user's that comes after `end`
    is not meant for the call any more; one of this process's own is dropped then.
    """

    def __init__(self) -> None:
        self._on_late: Callable[[], None] | None = None
        self._opened: list[asyncio.Task[Any] | None] = []
        self._pending = False
        self._watchers: list[Callable[[], None]] = []
        self.interrupted = False
        self.by_user = False
        """Whether a signal was not one of this process's own, which follow from Stop, Cancel or a time limit."""

    def installed(self) -> contextlib.AbstractContextManager[None]:
        return handled_by(self._handle)

    @contextlib.contextmanager
    def watched(self, watcher: Callable[[], None]) -> Iterator[None]:
        """Have `watcher` called when a signal comes that is not this process's own. It may take no lock."""
        self._watchers.append(watcher)
        if self.by_user:
            watcher()
        try:
            yield
        finally:
            self._watchers.remove(watcher)

    @contextlib.contextmanager
    def open(self, task: asyncio.Task[Any] | None = None) -> Iterator[None]:
        try:
            self._opened.append(task)
            if self._pending:
                self._pending = False
                self._stop()
            yield
        finally:
            # Calls that await side by side do not end in the order in which they began.
            self._opened.remove(task)

    def end(self, on_late: Callable[[], None]) -> None:
        """The call's code has ended. `on_late` is called with a signal of the user's from now on, in its handler: it
        may take no lock."""
        self._on_late = on_late

    def _handle(self, _signal: int, _frame: FrameType | None) -> None:
        if self._on_late is not None:
            if not own_signal.take():
                self._on_late()
            return
        self.interrupted = True
        if not own_signal.take():
            self.by_user = True
            for watcher in tuple(self._watchers):
                watcher()
        if self._opened:
            self._stop()
        else:
            self._pending = True

    def pass_on(self) -> None:
        """There was no call after all: raise a signal that came meanwhile again, for the previous handler."""
        if self.interrupted:
            signal.raise_signal(signal.SIGINT)

    def _stop(self) -> None:
        if any(task is None or _is_current(task) for task in self._opened):
            raise KeyboardInterrupt
        for task in self._opened:
            if task is not None:
                task.get_loop().call_soon_threadsafe(task.cancel)


def _is_current(task: asyncio.Task[Any]) -> bool:
    try:
        return asyncio.current_task() is task
    except RuntimeError:
        return False


def run_beside(awaitable: Awaitable[Any]) -> Any:
    """Run an awaitable to its end on a new event loop, also where this thread's loop is running.

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
    """An error that a task may not raise, because asyncio would let it end the kernel's event loop."""

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
