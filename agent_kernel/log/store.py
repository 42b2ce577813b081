"""The log's file, its thread and its transactions.

SQLite is used from one thread only, so writes are strictly ordered and never block an event loop. One call of
`Log.write` is one transaction, flushed to disk (`synchronous=FULL`) before it returns; the events it appended are
handed to listeners after the commit and in commit order, so nothing is shown that is not on disk.
"""

import asyncio
import os
import sqlite3
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Self, TypeVar

from agent_kernel.errors import ConfigurationError, LogUnavailable
from agent_kernel.log import audit
from agent_kernel.log.journal import Frame, Journal
from agent_kernel.log.migrations import migrate
from agent_kernel.log.owners import Owner
from agent_kernel.log.thread import After, LogThread

T = TypeVar("T")
Listener = Callable[[list[Frame]], None]
AuditListener = Callable[[list[audit.Entry]], None]


class Transaction:
    """What one unit of work may do: SQL on `sql`, events through `append`."""

    def __init__(self, sql: sqlite3.Connection, journal: Journal) -> None:
        self.sql = sql
        self._journal = journal
        self.append = journal.append
        self.frames: list[Frame] = journal.begin()


class Log:
    """An open log. Use `Log.open`; close it with `aclose`."""

    def __init__(self, connection: sqlite3.Connection, owner: Owner | None, thread: LogThread) -> None:
        self._connection = connection
        self._owner = owner
        self._thread = thread
        self._journal = Journal(connection)
        self._listeners: dict[int, Listener] = {}
        self._audit_listener: AuditListener | None = None

    @classmethod
    async def open(cls, path: Path | None) -> Self:
        """Open or create the log at `path` (mode 0600), or in memory where it is `None`.

        Raises `LogUnavailable` where the file can't be opened, `ConfigurationError` where a newer version wrote it.
        """
        thread = LogThread(asyncio.get_running_loop())
        try:
            connection, owner = await thread.run(lambda: (_open(path), []))
        except (OSError, sqlite3.Error, ConfigurationError) as error:
            thread.end()
            if isinstance(error, ConfigurationError):
                raise
            raise LogUnavailable(f"The log at {path} can't be opened: {error}.") from error
        return cls(connection, owner, thread)

    async def aclose(self) -> None:
        def close() -> tuple[None, list[After]]:
            self._connection.close()
            if self._owner is not None:
                self._owner.close()
            return None, []

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
        self._audit_listener = listener

    async def write(self, work: Callable[[Transaction], T]) -> T:
        """Run `work` in a transaction on the log's thread. What it raises rolls everything back.

        Raises `LogUnavailable` where the file takes nothing.
        """
        return await self._thread.run(lambda: self._write(work))

    async def read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        return await self._thread.run(lambda: (work(self._connection), []))

    def _write(self, work: Callable[[Transaction], T]) -> tuple[T, list[After]]:
        transaction = Transaction(self._connection, self._journal)
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            if self._audit_listener is None:
                result, entries = work(transaction), []
            else:
                last = audit.read_head(self._connection).number
                result = work(transaction)
                entries = list(audit.read_entries(self._connection, last))  # none of another server's on the same log
            self._connection.execute("COMMIT")
        except BaseException as error:
            self._journal.forget(transaction.frames)
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            if isinstance(error, sqlite3.OperationalError):
                raise LogUnavailable(
                    f"Agent Kernel's log can't be written ({error}). Nothing is done without it: "
                    "free space on the disk, or make the directory writable."
                ) from error
            raise
        after: list[After] = []
        if transaction.frames:
            after.append(partial(self._publish, transaction.frames))
        if self._audit_listener is not None and entries:
            after.append(partial(self._audit_listener, entries))
        return result, after

    def _publish(self, frames: list[Frame]) -> None:
        for frame in frames:
            listener = self._listeners.get(frame.conversation)
            if listener is not None:
                listener([frame])


def _open(path: Path | None) -> tuple[sqlite3.Connection, Owner | None]:
    connection = _connect(path)
    owner = Owner(path) if path is not None else None
    connection.create_function("this_process", 0, lambda: owner.name if owner is not None else "")
    connection.create_function("lives_elsewhere", 1, lambda name: owner is not None and owner.lives_elsewhere(name))
    return connection, owner


def _connect(path: Path | None) -> sqlite3.Connection:
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        # Created before SQLite opens it, so that it is never readable by others, not even for a moment.
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
        path.chmod(0o600)
    connection = sqlite3.connect(path or ":memory:", isolation_level=None, check_same_thread=False)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute("PRAGMA busy_timeout = 5000")
    migrate(connection)
    return connection
