"""The log's file, its thread and its transactions.

The log is written from one thread only, so writes are strictly ordered and never block an event loop. One call of
`Log.write` is all or nothing, and flushed to disk (`synchronous=FULL`) before it returns; the events it appended are
handed to listeners after the commit and in commit order, so nothing is shown that is not on disk.
"""

import asyncio
import logging
import shutil
import sqlite3
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Self, TypeVar

from agent_kernel.errors import ConfigurationError, LogUnavailable
from agent_kernel.log.journal import Frame
from agent_kernel.log.migrations import migrate
from agent_kernel.log.opening import LOCAL, open_to_write
from agent_kernel.log.owners import Owner
from agent_kernel.log.reader import Reader
from agent_kernel.log.thread import After, LogThread
from agent_kernel.log.transactions import AuditListener, Transaction, Transactions, Unit

logger = logging.getLogger(__name__)
T = TypeVar("T")
Listener = Callable[[list[Frame]], None]


class Log:
    """An open log. Use `Log.open`; close it with `aclose`."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        owner: Owner | None,
        thread: LogThread,
        reader: Reader | None,
        *,
        alone: bool = False,
    ) -> None:
        self.alone = alone
        """Whether no other process can have this log open: see `opening`."""
        self._connection = connection
        self._reader = reader
        self._owner = owner
        self._thread = thread
        self._listeners: dict[int, Listener] = {}
        self._transactions = Transactions(connection, self._publish)
        self._units: deque[Unit] = deque()

    @classmethod
    async def open(cls, path: Path | None) -> Self:
        """Open or create the log at `path` (mode 0600), or in memory where it is `None`.

        Raises `LogUnavailable` where the file can't be opened, `ConfigurationError` where a newer version wrote it.
        """
        thread = LogThread(asyncio.get_running_loop())
        try:
            connection, alone, owner = await thread.run(lambda: _open(path))
        except (OSError, sqlite3.Error, ConfigurationError) as error:
            thread.end()
            if isinstance(error, ConfigurationError):
                raise
            raise LogUnavailable(
                f"The log at {path} can't be opened: {error}. Make its directory writable, or {LOCAL}."
            ) from error
        reader = Reader(asyncio.get_running_loop(), path) if path is not None and not alone else None
        return cls(connection, owner, thread, reader, alone=alone)

    async def aclose(self) -> None:
        if self._reader is not None:
            await self._reader.aclose()

        def close() -> None:
            self._connection.close()
            if self._owner is not None:
                self._owner.close()

        await self._thread.run(close)
        self._thread.end()

    def listen(self, conversation: int, listener: Listener | None) -> None:
        """Hand a conversation's committed frames to `listener`, in the event loop; `None` ends it."""
        if listener is None:
            self._listeners.pop(conversation, None)
        else:
            self._listeners[conversation] = listener

    def listen_to_audit(self, listener: AuditListener) -> None:
        """Hand the entries of the audit trail that are committed here from now on to `listener`, in the event loop."""
        self._transactions.audit_listener = listener

    async def write(self, work: Callable[[Transaction], T]) -> T:
        """Run `work` in a transaction on the log's thread. What it raises rolls back all that it did.

        Raises `LogUnavailable` where the file takes nothing.
        """
        result: T = await self.submit(work).future
        return result

    def submit(self, work: Callable[[Transaction], Any], follows: Sequence[Unit] = ()) -> Unit:
        """As `write`, for who does not wait for it at once. It is done after all that was asked for before it, and not
        where one of those that it `follows` could not be written; then it raises what that one raised."""
        unit = Unit(work, self._thread.future(), follows)
        self._units.append(unit)
        self._thread.post(self._write_together)
        return unit

    async def read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run `work` on the log's thread. It sees all writes that were asked for before it, and maybe later ones."""
        return await self._thread.run(lambda: work(self._connection))

    async def read_apart(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run `work`, which may take long, on a thread of its own and over one state of the log. It sees all writes
        that were awaited before it, and holds none up; a log in memory, or one that is held alone, has one connection,
        so there it does."""
        return await (self._reader.run(work) if self._reader is not None else self.read(work))

    def _write_together(self) -> list[After]:
        """Write what has been asked for. There is one call for each unit; most find theirs written."""
        return self._transactions.carry_out(self._units) if self._units else []

    def _publish(self, frames: list[Frame]) -> None:
        for frame in frames:
            listener = self._listeners.get(frame.conversation)
            if listener is not None:
                listener([frame])


def _open(path: Path | None) -> tuple[sqlite3.Connection, bool, Owner | None]:
    connection, alone = _connect(path)
    try:
        owner = Owner(path) if path is not None else None
    except BaseException:
        connection.close()
        raise
    connection.create_function("this_process", 0, lambda: owner.name if owner is not None else "")
    connection.create_function("lives_elsewhere", 1, lambda name: owner is not None and owner.lives_elsewhere(name))
    return connection, alone, owner


def _connect(path: Path | None) -> tuple[sqlite3.Connection, bool]:
    if path is not None:
        connection, alone = open_to_write(path)
    else:
        connection, alone = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False), False
    try:
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("PRAGMA busy_timeout = 5000")
        migrate(connection)
        if path is not None:
            _make_room(connection, path)
    except BaseException:
        connection.close()  # else it would hold a log that it has alone until it is collected
        raise
    return connection, alone


def _make_room(connection: sqlite3.Connection, path: Path) -> None:
    """Have the write-ahead log be as long from the start as it gets before SQLite writes it anew from its beginning.
    While it grows, the file system has to note each new block with each flush, and a commit takes three times as long.
    """
    pages, size = (connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("wal_autocheckpoint", "page_size"))
    room, ahead = pages * size, path.with_name(f"{path.name}-wal")
    if (ahead.exists() and ahead.stat().st_size >= room) or shutil.disk_usage(path.parent).free < 16 * room:
        return
    cache = connection.execute("PRAGMA cache_size").fetchone()[0]
    connection.execute("PRAGMA cache_size = 1")  # what does not fit is written there before the commit
    try:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("CREATE TABLE room (bytes)")
        connection.execute("INSERT INTO room VALUES (zeroblob(?))", (room,))
    except sqlite3.OperationalError as error:
        logger.debug("No room was made in the log: %s", error)  # another server writes, or the disk is full after all
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        connection.execute(f"PRAGMA cache_size = {cache}")
