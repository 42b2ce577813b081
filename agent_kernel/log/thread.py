"""The log's threads: one for writing, one for long reads.

Not a `ThreadPoolExecutor`: that wakes the event loop once for the result and once more for the frames, and each wake-up
costs as much as the SQL of a small commit.
"""

import asyncio
import logging
import queue
import threading
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

logger = logging.getLogger(__name__)
T = TypeVar("T")
After = Callable[[], None]
"""What is to be done in the event loop."""
Job = Callable[[], list[After]]
"""Work for the thread. It raises nothing."""


class LogThread:
    """Works off jobs in order. Each reports to the event loop with one wake-up, in order as well."""

    def __init__(self, loop: asyncio.AbstractEventLoop, name: str = "agent-kernel-log") -> None:
        self._loop = loop
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        threading.Thread(target=self._work, name=name, daemon=True).start()

    def future(self) -> asyncio.Future[Any]:
        return self._loop.create_future()

    def post(self, job: Job) -> None:
        """Queue a job. It is done even if whoever waits for it is cancelled."""
        self._jobs.put(job)

    def run(self, work: Callable[[], T]) -> asyncio.Future[T]:
        """Queue work whose result is waited for."""
        future: asyncio.Future[T] = self.future()
        self.post(lambda: [outcome(future, work)])
        return future

    def end(self) -> None:
        """End the thread after the jobs that are queued."""
        self._jobs.put(None)

    def _work(self) -> None:
        while self._do_next():
            pass

    def _do_next(self) -> bool:
        """A call of its own for each job: while the next is waited for, nothing holds what the last one was about."""
        job = self._jobs.get()
        if job is None:
            return False
        afters = job()
        if self._loop.is_closed():
            return False
        if afters:
            self._loop.call_soon_threadsafe(_do_all, afters)
        return True


def _do_all(afters: list[After]) -> None:
    for act in afters:
        try:
            act()
        except Exception:  # what one listener raises keeps no result from those who wait
            logger.exception("Something broke on what was committed")


def outcome(future: asyncio.Future[T], work: Callable[[], T]) -> After:
    """Do the work; what is returned gives its result, or what it raised, to whoever waits."""
    try:
        return partial(succeed, future, work())
    except BaseException as error:  # noqa: BLE001 -- raised again where the work was asked for
        return partial(fail, future, error)


def succeed(future: asyncio.Future[T], result: T) -> None:
    if not future.done():
        future.set_result(result)


def fail(future: asyncio.Future[Any], error: BaseException) -> None:
    if not future.done():
        future.set_exception(error)
