"""Holds a cell until a run ends. A wait on the main thread runs the calls that arrive meanwhile."""

import asyncio
import contextlib
import signal
import threading
import time
from collections.abc import Callable, Iterator

from agent_kernel.notebook.execution.interrupts import AwaitInterrupted, Notice, RunInterrupted
from agent_kernel.notebook.kernel.run_state import RunState
from agent_kernel.notebook.kernel.state import KernelState

AWAKE_SECONDS = 0.5
"""ipykernel cancels an interrupted `await` when its event loop wakes next, and does not wake it."""
STOP_SECONDS = 5.0
"""How long a cell whose wait was interrupted waits for the end of the run, whose record it shows."""


def wait(state: KernelState, run: RunState, timeout: float | None = None) -> None:
    """Block this thread until the run ends.

    `timeout` is in seconds. Raises `TimeoutError`, which leaves the run going, and `RunInterrupted` after an
    interrupt, which cancels it.
    """
    try:
        interrupted = _block(state, run, None if timeout is None else time.monotonic() + timeout)
    except KeyboardInterrupt:
        end_interrupted(state, run)
        interrupted = True
    except TimeoutError:
        raise TimeoutError(f"The run did not end within {timeout:g} s. It goes on.") from None
    _after_wait(run)
    if interrupted:
        raise RunInterrupted


def end_interrupted(state: KernelState, run: RunState) -> None:
    """Cancel the run because its cell was interrupted, and wait for its end, for some seconds."""
    run.cancel("interrupted")
    with contextlib.suppress(KeyboardInterrupt, TimeoutError):  # a second interrupt ends the wait
        _block(state, run, time.monotonic() + STOP_SECONDS)
    _after_wait(run)


def _block(state: KernelState, run: RunState, deadline: float | None) -> bool:
    """Whether an interrupt has cancelled the run in one of its calls. Raises `TimeoutError`."""
    interrupted = False
    event = threading.Event()
    with _listening(state, run, event.set), _interruptible():
        while not run.done:
            event.clear()
            if state.executor.run_next():
                interrupted = interrupted or run.stop_cause == "interrupted"
                continue
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                raise TimeoutError
            event.wait(left)
    return interrupted


async def wait_async(state: KernelState, run: RunState) -> None:
    """As `wait`, for `await run`: the event loop goes on. Raises `AwaitInterrupted` after an interrupt."""
    notice = Notice(passes_on=True)
    with notice.taken():
        try:
            interrupted = await _suspend(state, run)
        except asyncio.CancelledError:
            if not notice.interrupted:
                raise
            interrupted = True
            run.cancel("interrupted")
            with contextlib.suppress(asyncio.CancelledError, TimeoutError):
                async with asyncio.timeout(STOP_SECONDS):
                    await _suspend(state, run)
    _after_wait(run)
    if interrupted:
        raise AwaitInterrupted


async def _suspend(state: KernelState, run: RunState) -> bool:
    """See `_block`."""
    interrupted = False
    loop = asyncio.get_running_loop()
    event = asyncio.Event()
    with _listening(state, run, lambda: loop.call_soon_threadsafe(event.set)):
        while not run.done:
            event.clear()
            if await state.executor.run_next_async():
                interrupted = interrupted or run.stop_cause == "interrupted"
            elif not run.done:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(AWAKE_SECONDS):
                        await event.wait()
    return interrupted


@contextlib.contextmanager
def _listening(state: KernelState, run: RunState, listener: Callable[[], object]) -> Iterator[None]:
    with run.listening(listener), state.mailbox.listening(listener):
        yield


def _after_wait(run: RunState) -> None:
    if run.end is not None and threading.current_thread() is threading.main_thread():
        run.host.on_waited(run, run.end)


@contextlib.contextmanager
def _interruptible() -> Iterator[None]:
    """Have SIGINT raise `KeyboardInterrupt`: in an async cell ipykernel's handler only sets a flag, which a thread that
    waits never reads."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    previous = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)
