"""Units of work, committed together where many are asked for at once.

Each commit is a flush to the disk, which takes milliseconds on most; a thousand decisions at the same instant are
written with a few dozen of them. Each unit stays all or nothing by itself, and nobody hears of one before the commit.
"""

import asyncio
import contextlib
import sqlite3
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from agent_kernel.log.audit import chain
from agent_kernel.log.events import Frame, Journal
from agent_kernel.log.faults import explained
from agent_kernel.log.log_file import LogFile
from agent_kernel.log.thread import After, fail, succeed

MOST_TOGETHER = 64
"""Units in one commit. The first of them waits for the last."""

AuditListener = Callable[[list[chain.Entry]], None]
Publish = Callable[[list[Frame]], None]


class Transaction:
    """What one unit of work may do: SQL on `sql`, events through `append`, and `flush` before it reads any."""

    def __init__(self, sql: sqlite3.Connection, journal: Journal) -> None:
        self.sql = sql
        self.append = journal.append
        self.flush = journal.flush
        self.frames: list[Frame] = journal.begin()

    def do(self, unit: "Unit") -> Any:
        for earlier in unit.follows:
            if earlier.error is not None:
                raise earlier.error
        result = unit.work(self)
        self.flush()
        return result


@dataclass(slots=True, eq=False)
class Unit:
    """Work that was asked for, and who waits for it."""

    work: Callable[[Transaction], Any]
    future: asyncio.Future[Any]
    follows: Sequence["Unit"] = ()
    """Units asked for before it. Where one of them is not written, this one is not done either."""
    error: BaseException | None = None
    """Why it was not written. Set on the log's thread."""


class Transactions:
    """Used on the log's thread only."""

    def __init__(self, connection: sqlite3.Connection, publish: Publish, file: LogFile | None) -> None:
        """`file` is `None` for a log in memory."""
        self._sql = connection
        self._file = file
        self._journal = Journal(connection)
        self._publish = publish
        self.audit_listener: AuditListener | None = None

    def carry_out(self, asked: deque[Unit]) -> list[After]:
        """Do the units that are asked for by now, and those that are while they are done, in one transaction and in
        order; where the first can't be done, that one alone. Returns what the event loop does once they are on the
        disk."""
        listener, file, checked = self.audit_listener, self._file, False
        units = [asked.popleft()]
        done: list[Transaction] = []
        afters: list[After] = []
        entries: list[chain.Entry] = []
        try:
            self._sql.execute("BEGIN IMMEDIATE")
            if file is not None:
                file.check()
                checked = True
            last = chain.read_head(self._sql).number if listener is not None else 0
            afters += self._do(units[0], done, alone=True)
            while asked and len(units) < MOST_TOGETHER:
                units.append(asked.popleft())
                afters += self._do(units[-1], done)
            if listener is not None:
                entries = list(chain.read_entries(self._sql, last))  # none of another server's on the same log
            self._journal.finish()
            self._sql.execute("COMMIT")
            if file is not None:
                file.committed()  # before anybody hears of it
        except BaseException as error:  # noqa: BLE001 -- raised again where the work was asked for
            with contextlib.suppress(sqlite3.Error):  # a damaged file may not even take that
                if self._sql.in_transaction:
                    self._sql.execute("ROLLBACK")
            if file is not None and checked:
                file.rolled_back()
            for transaction in done:
                self._journal.forget(transaction.frames)
            return [self._failed(unit, error) for unit in units]
        if listener is not None and entries:
            afters.append(partial(listener, entries))
        return afters

    def _do(self, unit: Unit, done: list[Transaction], *, alone: bool = False) -> list[After]:
        """One unit. What it raises undoes this unit, and only this one, unless it is `alone` so far, or SQLite has
        undone all of them."""
        transaction = Transaction(self._sql, self._journal)
        done.append(transaction)
        if alone:
            result = transaction.do(unit)
        else:
            self._sql.execute("SAVEPOINT unit")
            try:
                result = transaction.do(unit)
            except BaseException as error:
                if not self._sql.in_transaction:
                    raise
                self._sql.execute("ROLLBACK TO unit")
                self._sql.execute("RELEASE unit")
                self._journal.forget(transaction.frames)
                return [self._failed(unit, error)]
            self._sql.execute("RELEASE unit")
        told = [partial(self._publish, transaction.frames)] if transaction.frames else []
        return [*told, partial(succeed, unit.future, result)]

    def _failed(self, unit: Unit, error: BaseException) -> After:
        unit.error = self._file.note(error) if self._file is not None else explained(error)
        return partial(fail, unit.future, unit.error)
