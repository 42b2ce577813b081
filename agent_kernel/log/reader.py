"""Long reads, on a thread and a connection of their own: no commit waits for them.

A read is one transaction: it sees one state of the log, however much is written meanwhile.
"""

import asyncio
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from agent_kernel.log.opening import connect_again
from agent_kernel.log.thread import LogThread

T = TypeVar("T")


class Reader:
    """Reads the log at a path, which is open for writing as long as this is open."""

    def __init__(self, loop: asyncio.AbstractEventLoop, path: Path) -> None:
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
