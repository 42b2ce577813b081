"""An open log: its file, its threads, and how work gets to them.

The log is written on one thread only, so writes are strictly ordered and never block an event loop. One call of
`Log.write` is all or nothing, and flushed to disk (`synchronous=FULL`) before it returns; the events it appended are
handed to listeners after the commit and in commit order, so nothing is shown that is not on disk.
"""

import asyncio
import logging
import shutil
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, NoReturn, Self, TypeVar

from agent_kernel.errors import LogUnavailable
from agent_kernel.log.audit.entries import Heard
from agent_kernel.log.events import Frame
from agent_kernel.log.faults import ADVICE, explained, is_damage
from agent_kernel.log.log_file import LogFile
from agent_kernel.log.opening import LOCAL, open_to_write
from agent_kernel.log.owners import Owner
from agent_kernel.log.schema import make_tables
from agent_kernel.log.threads import After, LogThread, ReaderThread
from agent_kernel.log.transactions import Transaction, Transactions, Unit, UnitQueue

logger = logging.getLogger(__name__)
T = TypeVar("T")
Listener = Callable[[list[Frame]], None]
AuditListener = Callable[[list[Heard]], None]
HEAD_SECONDS = 0.1
"""The least time between two updates of the file with the audit trail's head."""
AUDIT_SECONDS = 0.1
"""How much later than their commit audit entries are handed out. A listener may take milliseconds for each (Jupyter's
event log checks a schema and has the page told), which the call that was decided on would wait for."""


AUDIT_TOGETHER = 8
"""Audit entries that are handed out in one turn of the event loop."""


class Log:
    """An open log. Use `Log.open`; close it with `aclose`."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        owner: Owner | None,
        thread: LogThread,
        reader: ReaderThread | None,
        file: LogFile | None,
        *,
        alone: bool = False,
    ) -> None:
        self.alone = alone
        """Whether no other process can have this log open: see `opening`."""
        self._file = file
        self._head_due: asyncio.TimerHandle | None = None
        self._audit_due: asyncio.TimerHandle | None = None
        self._audit_listener: AuditListener | None = None
        self._connection = connection
        self._reader = reader
        self._owner = owner
        self._thread = thread
        self._listeners: dict[int, Listener] = {}
        self._transactions = Transactions(connection, self._publish, file)
        self._queue = UnitQueue()

    @classmethod
    async def open(cls, path: Path | None) -> Self:
        """Open or create the log at `path` (mode 0600), or one in memory if it is `None`.

        Raises `LogUnavailable` if the file can't be opened or is of another version.
        """
        thread = LogThread(asyncio.get_running_loop())
        try:
            connection, alone, owner, file = await thread.run(lambda: _open(path))
        except (OSError, sqlite3.Error, LogUnavailable) as error:
            thread.end()
            if isinstance(error, LogUnavailable):
                raise
            advice = ADVICE if is_damage(error) else f"Make its directory writable, or {LOCAL}."
            raise LogUnavailable(f"The log at {path} can't be opened: {error}. {advice}") from error
        reader = ReaderThread(asyncio.get_running_loop(), path) if path is not None and not alone else None
        return cls(connection, owner, thread, reader, file, alone=alone)

    @property
    def fault(self) -> str | None:
        """Why nothing is written any more, if the file was changed or taken away while it was open."""
        return self._file.fault if self._file is not None else None

    async def aclose(self) -> None:
        if self._reader is not None:
            await self._reader.aclose()
        for due in (self._head_due, self._audit_due):
            if due is not None:
                due.cancel()
        last = await self._thread.run(self._take_heard)
        if self._audit_listener is not None and last:
            self._audit_listener(last)

        def close() -> None:
            self._update_head()
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
        """Hand the audit entries that this process commits from now on to `listener`, in the event loop, a moment after
        their commit."""
        self._audit_listener = listener
        self._transactions.listens_to_audit = True

    async def write(self, work: Callable[[Transaction], T], *, conversation: int | None = None) -> T:
        """Run `work`, which is about this `conversation` only where one is named, in a transaction on the log's thread.
        What it raises rolls back all that it did.

        Raises `LogUnavailable` if the file can't be written.
        """
        result: T = await self.submit(work, conversation=conversation).future
        return result

    def submit(
        self,
        work: Callable[[Transaction], Any],
        follows: Sequence[Unit] = (),
        *,
        conversation: int | None = None,
        urgent: bool = False,
        then: Callable[[Any], None] | None = None,
    ) -> Unit:
        """As `write`, without waiting: await `future` of what is returned. The work is done after all that was queued
        before it; `urgent` work about a `conversation` after all of that which may concern it. If one of the units
        that it `follows` could not be written, it is not done, and raises the same. `then` gets the result, before
        what waits for it goes on."""
        unit = Unit(work, self._thread.future(), follows, conversation, urgent, then)
        self._queue.add(unit)
        self._thread.post(partial(self._write_up_to, unit), urgent=urgent)
        return unit

    async def read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run `work` on the log's thread. It sees all writes that were queued before it, and maybe later ones.

        Raises `LogUnavailable` if the file can't be read.
        """
        try:
            return await self._thread.run(lambda: work(self._connection))
        except (sqlite3.Error, ValueError) as error:
            self._raise_explained(error)

    async def read_apart(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run `work`, which may take long, on the reader thread, over one state of the log. It sees all writes that
        were awaited before it and delays none. (A log in memory, or one that is held alone, has one connection: there
        it does.) Raises `LogUnavailable` if the file can't be read."""
        if self._reader is None:
            return await self.read(work)
        try:
            return await self._reader.run(work)
        except (sqlite3.Error, ValueError) as error:
            self._raise_explained(error)

    def _raise_explained(self, error: Exception) -> NoReturn:
        reason = self._file.note(error) if self._file is not None else explained(error)
        if reason is error:
            raise error
        raise reason from error

    def _write_up_to(self, unit: Unit) -> list[After]:
        """Write this unit, with all that is queued before it, and after it up to a limit. An earlier call may have
        written it. A read that was asked for later finds it, even where an urgent unit went ahead of it."""
        while not unit.taken:
            written = self._transactions.write(self._queue)
            if self._file is not None and self._head_due is None:
                written.rest.append(self._update_head_soon)
            if self._transactions.heard and self._audit_due is None:
                written.rest.append(self._hand_out_audit_soon)
            self._thread.hand_out(written.rest, written.first)
        return []

    def _hand_out_audit_soon(self) -> None:
        if self._audit_due is None:
            self._audit_due = asyncio.get_running_loop().call_later(AUDIT_SECONDS, self._thread.post, self._read_audit)

    def _read_audit(self) -> list[After]:
        self._audit_due = None
        return [partial(self._hand_out_audit, self._take_heard())]

    def _take_heard(self) -> list[Heard]:
        heard, self._transactions.heard = self._transactions.heard, []
        return heard

    def _hand_out_audit(self, heard: list[Heard]) -> None:
        if self._audit_listener is not None and heard:
            some, rest = heard[:AUDIT_TOGETHER], heard[AUDIT_TOGETHER:]
            if rest:
                asyncio.get_running_loop().call_soon(self._hand_out_audit, rest)
            self._audit_listener(some)

    def _update_head_soon(self) -> None:
        """Later than the commit, so that no result waits for it."""
        if self._head_due is None:
            self._head_due = asyncio.get_running_loop().call_later(HEAD_SECONDS, self._thread.post, self._update_head)

    def _update_head(self) -> list[After]:
        self._head_due = None
        if self._file is not None:
            with suppress(sqlite3.Error):  # the next transaction says what is wrong
                self._file.update_head()
        return []

    def _publish(self, frames: list[Frame]) -> None:
        for frame in frames:
            listener = self._listeners.get(frame.conversation)
            if listener is not None:
                listener([frame])


def _open(path: Path | None) -> tuple[sqlite3.Connection, bool, Owner | None, LogFile | None]:
    connection, alone = _connect(path)
    owner = None
    try:
        owner = Owner(path) if path is not None else None
        file = LogFile(path, connection, alone=alone) if path is not None else None
    except BaseException:
        connection.close()
        if owner is not None:
            owner.close()
        raise
    connection.create_function("this_process", 0, lambda: owner.name if owner is not None else "")
    connection.create_function("lives_elsewhere", 1, lambda name: owner is not None and owner.lives_elsewhere(name))
    return connection, alone, owner, file


def _connect(path: Path | None) -> tuple[sqlite3.Connection, bool]:
    if path is not None:
        connection, alone = open_to_write(path)
    else:
        connection, alone = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False), False
    try:
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA wal_autocheckpoint = 500")  # pages
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("PRAGMA busy_timeout = 5000")
        make_tables(connection)
        if path is not None:
            _make_room(connection, path)
    except BaseException:
        connection.close()  # a log that is held alone would stay locked until the object is collected
        raise
    return connection, alone


def _make_room(connection: sqlite3.Connection, path: Path) -> None:
    """Make the write-ahead log as long from the start as it gets before SQLite begins it anew. While it grows, the file
    system records new blocks with each flush, and a commit takes three times as long."""
    pages, size = (connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("wal_autocheckpoint", "page_size"))
    room, ahead = pages * size, path.with_name(f"{path.name}-wal")
    if (ahead.exists() and ahead.stat().st_size >= room) or shutil.disk_usage(path.parent).free < 16 * room:
        return
    cache = connection.execute("PRAGMA cache_size").fetchone()[0]
    connection.execute("PRAGMA cache_size = 1")  # what does not fit is written before the commit
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
