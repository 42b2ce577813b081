"""Handles SIGINT while a call runs or a cell waits for a run."""

import _thread
import asyncio
import contextlib
import contextvars
import signal
import threading
from collections.abc import Callable, Coroutine, Iterator
from types import FrameType
from typing import Any, TypeVar

from IPython.core.async_helpers import get_asyncio_loop

T = TypeVar("T")
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


def run_on_this_loop(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end on this thread's event loop, also where a cell blocks that loop: the tasks of the
    user's cells, and those that calls leave, go on meanwhile.

    asyncio has no such method. `_run_once` and `_ready` are undocumented: they are used only here.
    """
    loop: Any = asyncio._get_running_loop()
    if loop is None:  # plain IPython
        found: T = get_asyncio_loop().run_until_complete(coroutine)
        return found
    outer = asyncio.current_task()
    queued = len(loop._ready)
    task = loop.create_task(coroutine)
    if outer is not None:
        asyncio._leave_task(loop, outer)
    held: list[asyncio.Handle] = []
    try:
        while not task.done():
            _hold_back(loop, held)
            loop._run_once()
    finally:
        if outer is not None:
            asyncio._enter_task(loop, outer)
        loop._ready.extend(held)
        # The turn of the loop that this cell is part of takes as many as were queued behind it: these, and nothing that
        # the next turn would hold back.
        loop._ready.extendleft(_done_already(loop) for _ in range(queued))
    result: T = task.result()
    return result


def _hold_back(loop: Any, held: list[asyncio.Handle]) -> None:
    """Take out what can't run inside of the cell, as it shares the cell's context: ipykernel's next messages."""
    for _ in range(len(loop._ready)):
        handle = loop._ready.popleft()
        (held if _is_entered(handle._context) else loop._ready).append(handle)


def _is_entered(context: contextvars.Context) -> bool:
    try:
        context.run(lambda: None)
    except RuntimeError:
        return True
    return False


def _done_already(loop: Any) -> asyncio.Handle:
    handle = asyncio.Handle(lambda: None, (), loop)
    handle.cancel()
    return handle
