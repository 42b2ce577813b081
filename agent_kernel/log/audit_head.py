"""The head of the audit trail, in a small file beside the log (mode 0600): the number of entries and the hash of the
last. It tells an empty trail from one that was lost.

The file is replaced as a whole, a moment after a commit that added entries. After a crash it may be behind the trail,
but never ahead. So a head that is not in the trail means that the log was removed, or replaced by an older copy.
"""

import contextlib
import logging
import os
import sqlite3
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from agent_kernel.log.audit import NO_ENTRY, Head, read_head
from agent_kernel.protocol.events import utc_now

logger = logging.getLogger(__name__)
VERSION = 1
MOST_LOST = 20
"""The newest lost trails are kept, this many."""


@dataclass(frozen=True, slots=True)
class Lost:
    """An audit trail that the log had once, and what was in its place when that was noticed."""

    head: Head
    found: int
    """The number of entries there instead."""
    at: str

    def __str__(self) -> str:
        has = "has no entry" if not self.found else f"has {self.found}"
        if self.found >= self.head.number:
            has = f"has {self.found} entries, but another one in that place"
        return f"there were {self.head.number} entries up to {self.head.hash}; the log {has}"


@dataclass(frozen=True, slots=True)
class HeadNote:
    """The content of the file."""

    head: Head
    lost: tuple[Lost, ...] = ()


def head_path(log: Path) -> Path:
    return log.with_name(f"{log.name}-head")


def read_note(log: Path) -> HeadNote | None:
    """`None` if there is no such file. Raises `ValueError` if it can't be read."""
    try:
        data = orjson.loads(head_path(log).read_bytes())
        lost = tuple(Lost(_head(one), int(one["found"]), str(one["at"])) for one in data.get("lost", ()))
        return HeadNote(_head(data), lost)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{head_path(log)} can't be read: {error}") from error


def _head(data: dict[str, Any]) -> Head:
    return Head(int(data["entries"]), str(data["hash"]))


def write_note(log: Path, note: HeadNote) -> None:
    """Raises `OSError`; then the file is as it was."""
    lost = [{"entries": one.head.number, "hash": one.head.hash, "found": one.found, "at": one.at} for one in note.lost]
    data = {"version": VERSION, "entries": note.head.number, "hash": note.head.hash, "lost": lost[-MOST_LOST:]}
    path = head_path(log)
    beside = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        file = os.open(beside, os.O_CREAT | os.O_WRONLY | os.O_TRUNC | getattr(os, "O_NOFOLLOW", 0), 0o600)
        try:
            os.write(file, orjson.dumps(data) + b"\n")
        finally:
            os.close(file)
        beside.replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            beside.unlink()
        raise


def missing(sql: sqlite3.Connection, head: Head) -> Lost | None:
    """The trail that was lost, if this head is not in the log's trail; `None` if it is. Reads one row."""
    if head.number == 0:
        return None
    if not has_trail(sql):
        return Lost(head, 0, utc_now())
    row = sql.execute("SELECT hash FROM audit WHERE number = ?", (head.number,)).fetchone()
    return None if row is not None and row[0] == head.hash else Lost(head, read_head(sql).number, utc_now())


def trail_head(sql: sqlite3.Connection) -> Head:
    """The trail's own head, also of a file that has no tables yet."""
    return read_head(sql) if has_trail(sql) else Head(0, NO_ENTRY)


def has_trail(sql: sqlite3.Connection) -> bool:
    """Whether the file has the tables of a trail."""
    (tables,) = sql.execute("SELECT count(*) FROM sqlite_master WHERE name IN ('audit', 'audit_head')").fetchone()
    return int(tables) == 2


class HeadFile:
    """Keeps the file up to date for an open log. Used on the log's thread only."""

    def __init__(self, log: Path, sql: sqlite3.Connection) -> None:
        """Takes note of a trail that was lost, and says so."""
        self._log = log
        try:
            note = read_note(log) or HeadNote(Head(0, NO_ENTRY))
        except ValueError as error:
            logger.warning("%s. It is written again: an earlier trail that was lost can't be noticed.", error)
            note = HeadNote(Head(0, NO_ENTRY))
        self._lost = note.lost
        if (lost := missing(sql, note.head)) is not None:
            logger.warning(
                "The audit trail at %s is not the one of before: %s. If you did not move the log away or put an older "
                "copy into its place, somebody else did. `agent-kernel audit --check` says so until %s is removed.",
                *(log, lost, head_path(log)),
            )
            self._lost = (*note.lost, lost)
        self.head = trail_head(sql)
        self._is_written = False
        self._write()

    def update(self, sql: sqlite3.Connection) -> None:
        head = read_head(sql)
        if head != self.head or not self._is_written:
            self.head = head
            self._write()

    def _write(self) -> None:
        self._is_written = False
        try:
            write_note(self._log, HeadNote(self.head, self._lost))
            self._is_written = True
        except OSError as error:
            logger.debug("The head of the audit trail was not written: %s", error)  # the next update tries again
