"""Runs many notebooks, several at once."""

import signal
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager

from agent_kernel.notebook.batch.execute import Execution
from agent_kernel.notebook.batch.job import Job, NotebookResult, plain
from agent_kernel.notebook.batch.progress import Progress


def run_all(jobs: Sequence[Job], workers: int, progress: Progress) -> list[NotebookResult]:
    """Run the notebooks and return their results in the order of the jobs.

    Ctrl+C and SIGTERM stop all of them: cells that run are interrupted, what has not begun does not begin, and no
    kernel is left. For the main thread.
    """
    executions = [Execution(job, progress) for job in jobs]
    with _terminated_as_interrupted(), ThreadPoolExecutor(workers, "agent-kernel-run") as pool:
        futures = [pool.submit(execution.run) for execution in executions]
        try:
            wait(futures)
        except KeyboardInterrupt:
            with _uninterrupted():
                for execution in executions:
                    execution.stop()
                wait(futures)
        return [_result(execution, future, progress) for execution, future in zip(executions, futures, strict=True)]


def _result(execution: Execution, future: "Future[NotebookResult]", progress: Progress) -> NotebookResult:
    error = future.exception()
    if error is None:
        return future.result()
    # One notebook that can't be read, or written, does not take the results of the others with it.
    result = NotebookResult(execution.job, "failed", error=plain(f"{type(error).__name__}: {error}"))
    progress.on_end(result)
    return result


@contextmanager
def _terminated_as_interrupted() -> Iterator[None]:
    """Have SIGTERM do what Ctrl+C does."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    previous = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous)


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Stopping takes some seconds, and a second Ctrl+C would leave kernels behind."""
    numbers = (signal.SIGINT, signal.SIGTERM)
    previous = [signal.signal(number, signal.SIG_IGN) for number in numbers]
    try:
        yield
    finally:
        for number, handler in zip(numbers, previous, strict=True):
            signal.signal(number, handler)
