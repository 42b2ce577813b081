"""Units of work, committed together when many are queued.

Each commit is a flush to the disk, which takes milliseconds on most; a thousand decisions at the same instant are
written with a few dozen of them. Each unit is all or nothing by itself, and its frames and result are handed out after
the commit.
"""

import asyncio
import contextlib
import sqlite3
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from agent_kernel.log.audit.entries import AuditedEntry
from agent_kernel.log.event_rows import EventWriter, Frame
from agent_kernel.log.file_faults import explained
from agent_kernel.log.log_file import LogFile
from agent_kernel.log.measures import Measure
from agent_kernel.log.threads import After, fail, succeed

MOST_TOGETHER = 64
"""Units in one commit, at most: the first of them waits for the last."""

Publish = Callable[[list[Frame]], None]
AuditListener = Callable[[list[AuditedEntry]], None]
MeasureListener = Callable[[list[Measure]], None]


class Transaction:
    """For a unit of work, which uses `sql`, adds events with `append`, calls `flush` before it reads any, and adds what
    became of calls to `audited` and `measured`."""

    def __init__(self, sql: sqlite3.Connection, events: EventWriter) -> None:
        self.sql = sql
        self.append = events.append
        self.flush = events.flush
        self.frames: list[Frame] = events.begin()
        self.audited: list[AuditedEntry] = []
        self.measured: list[Measure] = []

    def run(self, unit: "Unit") -> Any:
        """The result of the unit's work. Raises what that raised, or what a unit raised that this one follows."""
        for earlier in unit.follows:
            if earlier.error is not None:
                raise earlier.error
        result = unit.work(self)
        self.flush()
        return result


@dataclass(slots=True, eq=False)
class Unit:
    """Queued work, and the future that gets its result."""

    work: Callable[[Transaction], Any]
    future: asyncio.Future[Any]
    follows: Sequence["Unit"] = ()
    """Units queued before it. If one of them is not written, this one is not done either."""
    error: BaseException | None = None
    """Why it was not written. Set on the log's thread, once."""


class Transactions:
    """Does queued units and commits them. Used on the log's thread only."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        publish: Publish,
        tell_listener: AuditListener,
        tell_measures: MeasureListener,
        file: LogFile | None,
    ) -> None:
        """`file` is `None` for a log in memory."""
        self._sql = connection
        self._file = file
        self._events = EventWriter(connection)
        self._publish, self._tell_listener, self._tell_measures = publish, tell_listener, tell_measures

    def write(self, queued: deque[Unit]) -> list[After]:
        """Do the units that are queued, in order and in one transaction; if the first one fails, that one alone. Does
        nothing where there is none. Returns what the event loop is to do then."""
        if not queued:
            return []
        units: list[Unit] = []
        done: list[Transaction] = []
        afters: list[After] = []
        file, checked = self._file, False
        try:
            units.append(queued.popleft())
            self._sql.execute("BEGIN IMMEDIATE")
            if file is not None:
                file.check()
                checked = True
            self._do(units[0], done, afters)
            while queued and len(units) < MOST_TOGETHER:
                units.append(queued.popleft())
                self._do(units[-1], done, afters)
            self._events.finish()
            self._sql.execute("COMMIT")
            if file is not None:
                file.committed()  # before any result is handed out
        except BaseException as error:  # noqa: BLE001 -- raised again where the work was queued
            with contextlib.suppress(sqlite3.Error):  # a damaged file may refuse even that
                if self._sql.in_transaction:
                    self._sql.execute("ROLLBACK")
            if file is not None and checked:
                file.rolled_back()
            for transaction in done:
                self._events.forget(transaction.frames)
            return [self._failed(one, error) for one in units]
        return afters

    def _do(self, unit: Unit, done: list[Transaction], afters: list[After]) -> None:
        """Do one unit. What it raises rolls back this unit and no other. It is raised again if the unit is the first
        in the transaction, or if SQLite rolled back the whole transaction."""
        transaction = Transaction(self._sql, self._events)
        alone = not done
        done.append(transaction)
        if alone:
            result = transaction.run(unit)
        else:
            self._sql.execute("SAVEPOINT unit")
            try:
                result = transaction.run(unit)
            except BaseException as error:
                if not self._sql.in_transaction:
                    raise
                self._sql.execute("ROLLBACK TO unit")
                self._sql.execute("RELEASE unit")
                self._events.forget(transaction.frames)
                afters.append(self._failed(unit, error))
                return
            self._sql.execute("RELEASE unit")
        afters.append(partial(succeed, unit.future, result))
        if transaction.frames:
            afters.append(partial(self._publish, transaction.frames))
        if transaction.audited:
            afters.append(partial(self._tell_listener, transaction.audited))
        if transaction.measured:
            afters.append(partial(self._tell_measures, transaction.measured))

    def _failed(self, unit: Unit, error: BaseException) -> After:
        unit.error = self._file.note(error) if self._file is not None else explained(error)
        return partial(fail, unit.future, unit.error)
