"""The log's one thread.

Not a `ThreadPoolExecutor`: that wakes the event loop once for the result and once more for the frames, and each wake-up
costs as much as the SQL of a small commit.
"""

import asyncio
import queue
import threading
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")
After = Callable[[], None]
Job = Callable[[], tuple[T, list[After]]]
"""Work for the thread: its result, and what is to be done in the event loop before anybody sees that result."""


class LogThread:
    """Works off jobs in order. Each reports to the event loop with one wake-up, in order as well."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._jobs: queue.SimpleQueue[tuple[asyncio.Future[Any], Job[Any]] | None] = queue.SimpleQueue()
        threading.Thread(target=self._work, name="agent-kernel-log", daemon=True).start()

    def run(self, job: Job[T]) -> asyncio.Future[T]:
        """Queue a job. It is done even if whoever waits for it is cancelled."""
        future: asyncio.Future[T] = self._loop.create_future()
        self._jobs.put((future, job))
        return future

    def end(self) -> None:
        """End the thread after the jobs that are queued."""
        self._jobs.put(None)

    def _work(self) -> None:
        while (queued := self._jobs.get()) is not None:
            future, job = queued
            try:
                result, after = job()
            except BaseException as error:  # noqa: BLE001 -- raised again where the job was asked for
                delivery: Callable[[], None] = _failure(future, error)
            else:
                delivery = _success(future, result, after)
            if self._loop.is_closed():
                return
            self._loop.call_soon_threadsafe(delivery)


def _success(future: asyncio.Future[T], result: T, after: list[After]) -> Callable[[], None]:
    def deliver() -> None:
        for act in after:
            act()
        if not future.done():
            future.set_result(result)

    return deliver


def _failure(future: asyncio.Future[Any], error: BaseException) -> Callable[[], None]:
    def deliver() -> None:
        if not future.done():
            future.set_exception(error)

    return deliver
