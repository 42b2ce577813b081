"""Holds a cell until a run ends. A wait on the main thread runs the calls that arrive meanwhile."""

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable, Iterator

from agent_kernel.notebook.execution.call_interrupts import AwaitInterrupted, Notice, RunInterrupted, run_on_this_loop
from agent_kernel.notebook.kernel.environment import in_thread_of_cells
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
        interrupted = _block(state, run, timeout)
    except TimeoutError:
        raise TimeoutError(f"The run did not end within {timeout:g} s. It goes on.") from None
    if interrupted:
        end_interrupted(state, run)
        raise RunInterrupted
    _after_wait(run)


def end_interrupted(state: KernelState, run: RunState) -> None:
    """Cancel the run because its cell was interrupted, and wait for its end, for some seconds."""
    run.cancel("interrupted")
    with contextlib.suppress(TimeoutError):  # a second interrupt ends the wait
        _block(state, run, STOP_SECONDS)
    _after_wait(run)


def _block(state: KernelState, run: RunState, timeout: float | None) -> bool:
    """Whether an interrupt came first, or has cancelled the run in one of its calls. Raises `TimeoutError`."""
    if threading.current_thread() is not threading.main_thread():
        if not run.wait_done(timeout):
            raise TimeoutError
        return False
    notice = Notice(passes_on=False)
    with notice.taken():
        try:
            return run_on_this_loop(_suspend(state, run, timeout, notice))
        finally:
            state.version.on_waited()


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
                await _suspend(state, run, STOP_SECONDS)
        finally:
            state.version.on_waited()
    _after_wait(run)
    if interrupted:
        raise AwaitInterrupted


async def _suspend(
    state: KernelState, run: RunState, seconds: float | None = None, notice: Notice | None = None
) -> bool:
    """See `_block`. `notice`: of interrupts that end the wait."""
    interrupted = False
    loop = asyncio.get_running_loop()
    event = asyncio.Event()
    deadline = None if seconds is None else time.monotonic() + seconds
    with _listening(state, run, lambda: loop.call_soon_threadsafe(event.set)):
        while not run.done:
            event.clear()
            if notice is not None and notice.interrupted:
                return True
            if await state.runner.run_next():
                interrupted = interrupted or run.stop_cause == "interrupted"
                continue
            left = AWAKE_SECONDS if deadline is None else min(AWAKE_SECONDS, deadline - time.monotonic())
            if left <= 0:
                raise TimeoutError
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(left):
                    await event.wait()
    return interrupted


@contextlib.contextmanager
def _listening(state: KernelState, run: RunState, listener: Callable[[], object]) -> Iterator[None]:
    run.waits += 1
    try:
        with run.listening(listener), state.calls.listening(listener):
            yield
    finally:
        run.waits -= 1


def _after_wait(run: RunState) -> None:
    if run.end is not None and in_thread_of_cells():
        run.host.on_waited(run, run.end)
