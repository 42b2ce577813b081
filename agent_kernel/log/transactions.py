"""Units of work, committed together when many are queued.

Each commit is a flush to the disk, which takes milliseconds on most; a thousand decisions at the same instant are
written with a few dozen of them. Each unit is all or nothing by itself, and its frames and result are handed out after
the commit.

A decision is urgent: it goes ahead of what other conversations have queued, and is committed without waiting for more.
"""

import asyncio
import contextlib
import sqlite3
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from agent_kernel.log.audit.entries import Heard
from agent_kernel.log.events import EventWriter, Frame
from agent_kernel.log.faults import explained
from agent_kernel.log.log_file import LogFile
from agent_kernel.log.threads import After, fail, succeed

MOST_TOGETHER = 64
"""Units in one commit, at most: the first of them waits for the last."""
NO_CONVERSATION = 0
"""In place of a conversation's number, which is at least 1: the unit concerns none that has calls."""

Publish = Callable[[list[Frame]], None]


@dataclass(frozen=True, slots=True)
class Written:
    """What the event loop is to do after a commit."""

    first: list[After]
    """The results of urgent units."""
    rest: list[After]
    """Other results, and all frames in the order of the commit."""
    heard: list[Heard] = field(default_factory=list)
    """The decisions and outcomes of calls, in the order of the audit trail."""


class Transaction:
    """For a unit of work, which uses `sql`, adds events with `append`, calls `flush` before it reads any, and adds what
    became of calls to `heard`."""

    def __init__(self, sql: sqlite3.Connection, events: EventWriter) -> None:
        self.sql = sql
        self.append = events.append
        self.flush = events.flush
        self.frames: list[Frame] = events.begin()
        self.heard: list[Heard] = []

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
    conversation: int | None = None
    """The one that it is about; `None` where it may concern others too."""
    urgent: bool = False
    """Whether it goes ahead of units of other conversations."""
    then: Callable[[Any], None] | None = None
    """What the event loop is to do with the result before it wakes what waits for it, in the same turn."""
    taken: bool = False
    """Whether the log's thread has begun with it."""
    error: BaseException | None = None
    """Why it was not written. Set on the log's thread, once."""


class UnitQueue:
    """The units that wait for the log's thread, in the order in which they were added, but for urgent ones: these go
    ahead, though never of a unit of their own conversation, of one that may concern it, or of another urgent one."""

    def __init__(self) -> None:
        self._units: deque[Unit] = deque()
        self._lock = threading.Lock()

    def add(self, unit: Unit) -> None:
        with self._lock:
            place = len(self._units)
            if unit.urgent:
                while place and _may_wait_for(unit, self._units[place - 1]):
                    place -= 1
            self._units.insert(place, unit)

    def take(self, *, urgent: bool = False) -> Unit | None:
        """The next unit, if there is one; if it is `urgent`, where only such a one is asked for."""
        with self._lock:
            if not self._units or (urgent and not self._units[0].urgent):
                return None
            unit = self._units.popleft()
        unit.taken = True
        return unit


def _next(queue: UnitQueue, units: Sequence[Unit]) -> Unit | None:
    """The unit to do in one transaction with these."""
    return queue.take(urgent=units[-1].urgent) if len(units) < MOST_TOGETHER else None


def _may_wait_for(urgent: Unit, queued: Unit) -> bool:
    """Whether what is queued may be done after the urgent unit."""
    return not queued.urgent and queued.conversation is not None and queued.conversation != urgent.conversation


class Transactions:
    """Does queued units and commits them. Used on the log's thread only."""

    def __init__(self, connection: sqlite3.Connection, publish: Publish, file: LogFile | None) -> None:
        """`file` is `None` for a log in memory."""
        self._sql = connection
        self._file = file
        self._events = EventWriter(connection)
        self._publish = publish
        self.listens_to_audit = False
        self.heard: list[Heard] = []
        """What was committed of the audit trail for those who listen, until it is taken from here."""

    def write(self, queue: UnitQueue) -> Written:
        """Do the units that are queued, and those that are queued meanwhile, in order and in one transaction; if the
        first one fails, that one alone. After an urgent one come only urgent ones. Does nothing where there is none."""
        file, checked = self._file, False
        if (unit := queue.take()) is None:
            return Written([], [])
        units = [unit]
        done: list[Transaction] = []
        written = Written([], [])
        try:
            self._sql.execute("BEGIN IMMEDIATE")
            if file is not None:
                file.check()
                checked = True
            self._do(unit, done, written)
            self._do_queued(queue, units, done, written)
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
            return Written([], [self._failed(one, error) for one in units])
        if self.listens_to_audit:
            self.heard += written.heard
        return written

    def _do_queued(self, queue: UnitQueue, units: list[Unit], done: list[Transaction], written: Written) -> None:
        """Do what is queued meanwhile, and compress where nothing is: one conversation at a time, so that a decision
        waits for no more."""
        while (unit := _next(queue, units)) is not None or (not units[-1].urgent and self._events.compress_next()):
            if unit is not None:
                units.append(unit)
                self._do(unit, done, written)

    def _do(self, unit: Unit, done: list[Transaction], written: Written) -> None:
        """Do one unit. What it raises rolls back this unit and no other. It is raised again if the unit is the first
        in the transaction, or if SQLite rolled back the whole transaction."""
        transaction = Transaction(self._sql, self._events)
        alone = not done
        done.append(transaction)
        # The result first: what waits for it, such as a call that starts, is on its way before the frames are sent.
        results = written.first if unit.urgent else written.rest
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
                results.append(self._failed(unit, error))
                return
            self._sql.execute("RELEASE unit")
        results.append(partial(succeed, unit.future, result, unit.then))
        written.heard.extend(transaction.heard)
        if transaction.frames:
            written.rest.append(partial(self._publish, transaction.frames))

    def _failed(self, unit: Unit, error: BaseException) -> After:
        unit.error = self._file.note(error) if self._file is not None else explained(error)
        return partial(fail, unit.future, unit.error)
