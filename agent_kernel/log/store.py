"""An open log: its file, its threads, and how work gets to them.

The log is written on one thread only, so writes are strictly ordered and never block an event loop. One call of
`Log.write` is all or nothing, and flushed to disk (`synchronous=FULL`) before it returns; the events it appended are
handed to listeners after the commit and in commit order, so nothing is shown that is not on disk. A flush takes
milliseconds on most disks, so what is queued at the same time is committed together.
"""

import asyncio
import logging
import sqlite3
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, NoReturn, Self, TypeVar

from agent_kernel.errors import LogUnavailable
from agent_kernel.log.audit import AuditedEntry
from agent_kernel.log.event_rows import Frame, append_event
from agent_kernel.log.file_faults import ADVICE, explained, is_damage
from agent_kernel.log.log_file import LogFile
from agent_kernel.log.measures import Measure
from agent_kernel.log.opening import LOCAL, open_to_write, read_apart
from agent_kernel.log.owners import Owner
from agent_kernel.log.tables import make_tables
from agent_kernel.protocol.events import LoggedEvent

logger = logging.getLogger(__name__)
T = TypeVar("T")
After = Callable[[], None]
"""A function to call in the event loop, after a commit."""
Listener = Callable[[list[Frame]], None]
AuditListener = Callable[[list[AuditedEntry]], None]
MeasureListener = Callable[[list[Measure]], None]
CLOSED = "Agent Kernel is stopping, and its log is closed. Nothing was done: ask again once it has been started again."
HEAD_SECONDS = 0.1
"""How long after a commit the file with the audit trail's head may be behind."""
MOST_TOGETHER = 64
"""Units in one commit, at most: the first of them waits for the last."""


class Transaction:
    """For a unit of work, which uses `sql`, adds events with `append`, and what became of calls to `audited` and
    `measured`."""

    def __init__(self, sql: sqlite3.Connection) -> None:
        self.sql = sql
        self.frames: list[Frame] = []
        self.audited: list[AuditedEntry] = []
        self.measured: list[Measure] = []

    def append(self, conversation: int, conversation_id: str, event: LoggedEvent) -> None:
        self.frames.append(append_event(self.sql, conversation, conversation_id, event))


class Unit(NamedTuple):
    """Queued work, and the future that gets its result."""

    work: Callable[[Transaction], Any]
    future: asyncio.Future[Any]


class Log:
    """An open log. Use `Log.open`; close it with `aclose`."""

    def __init__(
        self, connection: sqlite3.Connection, owner: Owner | None, file: LogFile | None, path: Path | None, alone: bool
    ) -> None:
        self.alone = alone
        """Whether no other process can have this log open: see `opening`."""
        self._connection = connection
        self._owner = owner
        self._file = file
        self._apart = None if alone else path
        """The file, where it can be opened once more for long reads."""
        self._loop = asyncio.get_running_loop()
        self._thread = ThreadPoolExecutor(1, "agent-kernel-log")
        self._queued: deque[Unit] = deque()
        self._closed = False
        self._listeners: dict[int, Listener] = {}
        self._audit_listener: AuditListener | None = None
        self._measure_listener: MeasureListener | None = None
        self._head_timer: asyncio.TimerHandle | None = None

    @classmethod
    async def open(cls, path: Path | None) -> Self:
        """Open or create the log at `path` (mode 0600), or one in memory if it is `None`.

        Raises `LogUnavailable` if the file can't be opened or is of another version.
        """
        try:
            connection, owner, file, alone = await asyncio.to_thread(_open, path)
        except (OSError, sqlite3.Error) as error:
            advice = ADVICE if is_damage(error) else f"Make its directory writable, or {LOCAL}."
            raise LogUnavailable(f"The log at {path} can't be opened: {error}. {advice}") from error
        return cls(connection, owner, file, path, alone)

    @property
    def fault(self) -> str | None:
        """Why nothing is written any more, if the file was changed or taken away while it was open."""
        return self._file.fault if self._file is not None else None

    async def aclose(self) -> None:
        """Do what is queued, and close the file. Work that is asked for from now on raises `LogUnavailable`."""
        if self._closed:
            return
        self._closed = True
        if self._head_timer is not None:
            self._head_timer.cancel()

        def close() -> None:
            self._update_head()
            self._connection.close()
            if self._owner is not None:
                self._owner.close()

        await self._loop.run_in_executor(self._thread, close)
        self._thread.shutdown(wait=False)

    def listen(self, conversation: int, listener: Listener | None) -> None:
        """Hand a conversation's committed frames to `listener`, in the event loop; `None` ends it."""
        if listener is None:
            self._listeners.pop(conversation, None)
        else:
            self._listeners[conversation] = listener

    def listen_to_audit(self, listener: AuditListener) -> None:
        """Hand the audit entries that this process commits from now on to `listener`, in the event loop."""
        self._audit_listener = listener

    def listen_to_measures(self, listener: MeasureListener) -> None:
        """Hand what this process commits from now on of calls, turns and runs to `listener`, in the event loop."""
        self._measure_listener = listener

    async def write(self, work: Callable[[Transaction], T]) -> T:
        """Run `work` in a transaction on the log's thread. What it raises rolls back all that it did.

        Raises `LogUnavailable` if the file can't be written.
        """
        result: T = await self.submit(work)
        return result

    def submit(self, work: Callable[[Transaction], T]) -> asyncio.Future[T]:
        """As `write`, without waiting. The work is done after all that was queued before it, also if nobody waits."""
        unit = Unit(work, self._loop.create_future())
        if self._closed:
            unit.future.set_exception(LogUnavailable(CLOSED))
        else:
            self._queued.append(unit)
            self._thread.submit(self._write_queued)
        return unit.future

    async def read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run `work` on the log's thread. It sees all writes that were queued before it, and maybe later ones.

        Raises `LogUnavailable` if the file can't be read.
        """
        if self._closed:
            raise LogUnavailable(CLOSED)
        try:
            return await self._loop.run_in_executor(self._thread, work, self._connection)
        except (sqlite3.Error, ValueError) as error:
            self._raise_explained(error)

    async def read_apart(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run `work`, which may take long, in another thread, over one state of the log. It sees all writes that
        were awaited before it and delays none. (A log in memory, or one that is held alone, has one connection: there
        it does.) Raises `LogUnavailable` if the file can't be read."""
        if self._apart is None or self._closed:
            return await self.read(work)
        try:
            return await asyncio.to_thread(read_apart, self._apart, work)
        except (sqlite3.Error, ValueError) as error:
            self._raise_explained(error)

    def _raise_explained(self, error: Exception) -> NoReturn:
        reason = self._explained(error)
        if reason is error:
            raise error
        raise reason from error

    def _explained(self, error: BaseException) -> BaseException:
        return self._file.note(error) if self._file is not None else explained(error)

    def _write_queued(self) -> None:
        """Do the units that are queued, up to a limit, in order and in one transaction. Each has such a job, before
        which it may be written."""
        if not self._queued:
            return
        units = [self._queued.popleft()]
        checked = False
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            if self._file is not None:
                self._file.check()
                checked = True
            afters = self._do(units[0])
            while self._queued and len(units) < MOST_TOGETHER:
                units.append(self._queued.popleft())
                afters += self._do(units[-1])
            self._connection.execute("COMMIT")
            if self._file is not None:
                self._file.committed()  # before any result is handed out
        except BaseException as error:  # noqa: BLE001 -- raised again where the work was queued
            with suppress(sqlite3.Error):  # a damaged file may refuse even that
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
            if self._file is not None and checked:
                self._file.rolled_back()
            afters = [self._failed(unit, error) for unit in units]
        with suppress(RuntimeError):  # the event loop is closed: nobody waits any more
            self._loop.call_soon_threadsafe(_do_all, afters)

    def _do(self, unit: Unit) -> list[After]:
        """Do one unit. What it raises rolls back this unit and no other; it is raised again if SQLite rolled back the
        whole transaction, or the file is damaged."""
        transaction = Transaction(self._connection)
        self._connection.execute("SAVEPOINT unit")
        try:
            result = unit.work(transaction)
        except BaseException as error:
            if not self._connection.in_transaction or is_damage(error):
                raise
            self._connection.execute("ROLLBACK TO unit")
            self._connection.execute("RELEASE unit")
            return [self._failed(unit, error)]
        self._connection.execute("RELEASE unit")
        afters: list[After] = [partial(_succeed, unit.future, result)]
        if transaction.frames:
            afters.append(partial(self._publish, transaction.frames))
        if transaction.audited:
            afters.append(self._update_head_soon)
            if self._audit_listener is not None:
                afters.append(partial(self._audit_listener, transaction.audited))
        if transaction.measured and self._measure_listener is not None:
            afters.append(partial(self._measure_listener, transaction.measured))
        return afters

    def _failed(self, unit: Unit, error: BaseException) -> After:
        return partial(_fail, unit.future, self._explained(error))

    def _publish(self, frames: list[Frame]) -> None:
        for frame in frames:
            if (listener := self._listeners.get(frame.conversation)) is not None:
                listener([frame])

    def _update_head_soon(self) -> None:
        """Once for what is committed within a moment: the next commit of a step need not wait for a file."""
        if self._head_timer is None and not self._closed:
            self._head_timer = self._loop.call_later(HEAD_SECONDS, self._queue_head)

    def _queue_head(self) -> None:
        self._head_timer = None
        self._thread.submit(self._update_head)

    def _update_head(self) -> None:
        if self._file is not None:
            with suppress(sqlite3.Error):  # the next transaction says what is wrong
                self._file.update_head()


def _do_all(afters: list[After]) -> None:
    for act in afters:
        try:
            act()
        except Exception:  # one broken listener must not keep results from others
            logger.exception("Something broke on what was committed")


def _succeed(future: asyncio.Future[Any], result: Any) -> None:
    if not future.done():
        future.set_result(result)


def _fail(future: asyncio.Future[Any], error: BaseException) -> None:
    if not future.done():
        future.set_exception(error)


def _open(path: Path | None) -> tuple[sqlite3.Connection, Owner | None, LogFile | None, bool]:
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
    return connection, owner, file, alone


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
    except BaseException:
        connection.close()  # a log that is held alone would stay locked until the object is collected
        raise
    return connection, alone
