"""The log's threads: one that writes, `LogThread`, and one for long reads, `ReaderThread`.

They are daemons, as those of a `ThreadPoolExecutor` are not: a kernel that exits waits for none of them.
"""

import asyncio
import logging
import queue
import sqlite3
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from agent_kernel.log.opening import connect_again

logger = logging.getLogger(__name__)
T = TypeVar("T")
After = Callable[[], None]
"""A function to call in the event loop."""
Job = Callable[[], list[After]]
"""Work for the thread, which returns what the event loop is to do then. It raises nothing."""


class LogThread:
    """Does jobs in order, and has the event loop do what each of them returns, in the same order."""

    def __init__(self, loop: asyncio.AbstractEventLoop, name: str = "agent-kernel-log") -> None:
        self._loop = loop
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        threading.Thread(target=self._work, name=name, daemon=True).start()

    def future(self) -> asyncio.Future[Any]:
        return self._loop.create_future()

    def post(self, job: Job) -> None:
        """Queue a job. It is done even if the task that waits for it is cancelled."""
        self._jobs.put(job)

    def run(self, work: Callable[[], T]) -> asyncio.Future[T]:
        """Queue work. The future gets its result, or what it raised."""
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
        """In a call of its own: while the thread waits for the next job, nothing refers to the last one's objects."""
        job = self._jobs.get()
        if job is None:
            return False
        afters = job()
        if afters and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(_do_all, afters)
        return not self._loop.is_closed()


class ReaderThread:
    """Long reads on a thread and a connection of their own: no commit waits for them.

    A read is one transaction: it sees one state of the log, however much is written meanwhile.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, path: Path) -> None:
        """`path` is that of a log which stays open for writing as long as this is open."""
        self._path = path
        self._thread = LogThread(loop, "agent-kernel-reader")
        self._connection: sqlite3.Connection | None = None

    def run(self, work: Callable[[sqlite3.Connection], T]) -> asyncio.Future[T]:
        """Queue a read. It sees all that was committed before it begins."""
        return self._thread.run(lambda: self._read(work))

    async def aclose(self) -> None:
        await self._thread.run(self._close)
        self._thread.end()

    def _read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        if self._connection is None:
            self._connection = connect_again(self._path)
        self._connection.execute("BEGIN")
        try:
            return work(self._connection)
        finally:
            self._connection.execute("ROLLBACK")

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()


def _do_all(afters: list[After]) -> None:
    for act in afters:
        try:
            act()
        except Exception:  # one broken listener must not keep results from others
            logger.exception("Something broke on what was committed")


def outcome(future: asyncio.Future[T], work: Callable[[], T]) -> After:
    """Do the work. The function that is returned gives its result, or what it raised, to the future."""
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
