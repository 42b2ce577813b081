"""Merges the audit trails of many notebooks into one, in the order of time.

A merged line is an entry with one more field, `notebook`. Entries are canonical JSON, so a line without that field,
written in the same form, is exactly what was hashed: each notebook's chain can be checked from the merged trail alone.
"""

import sqlite3
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import orjson

from agent_kernel.log.audit import check, read_entries
from agent_kernel.log.audit_head import has_trail, missing, read_note, trail_head
from agent_kernel.log.opening import open_to_read

FIELD = "notebook"


@dataclass(frozen=True, slots=True)
class Line:
    """An entry in the merged trail."""

    key: tuple[str, str, int]
    """Its place: the time, the notebook, and the number of the entry. The time is never before that of the entry before
    it in its own trail, so that none is out of order there."""
    text: str


@dataclass(frozen=True, slots=True)
class Trail:
    """The audit trail of one notebook."""

    entries: int = 0
    hash: str = ""
    """That of the last entry; "" if there is none."""
    fault: str = ""
    """Why the trail is not whole; "" if it is."""
    lines: tuple[Line, ...] = ()


def read_trail(name: str, log: Path) -> Trail:
    """The trail of an agent's log. A notebook without an agent has none, and that is no fault."""
    try:
        note = read_note(log)
        if not log.is_file():
            return Trail() if note is None else Trail(fault=f"the log is lost: it had {note.head.number} entries")
        with closing(open_to_read(log)[0]) as connection:
            connection.execute("BEGIN")  # one view of the file, even if a kernel writes to it
            lost = missing(connection, note.head) if note is not None else None
            if lost is not None:
                return Trail(fault=f"a trail is lost: {lost}")
            if not has_trail(connection):
                return Trail()
            if (fault := check(connection)) is not None:
                return Trail(fault=f"entry {fault.number} does not fit: {fault.why}")
            head = trail_head(connection)
            return Trail(head.number, head.hash if head.number else "", "", _lines(name, connection))
    except (sqlite3.Error, OSError, ValueError) as error:
        return Trail(fault=f"{log.name} can't be read: {error}")


def _lines(name: str, connection: sqlite3.Connection) -> tuple[Line, ...]:
    lines: list[Line] = []
    for entry in read_entries(connection):
        fields = entry.fields
        at = max(str(fields["at"]), lines[-1].key[0] if lines else "")
        text = orjson.dumps(fields | {FIELD: name}, option=orjson.OPT_SORT_KEYS).decode()
        lines.append(Line((at, name, entry.number), text))
    return tuple(lines)


def merge(trails: Iterable[Trail]) -> list[str]:
    """The lines of all trails, the oldest first."""
    lines = sorted((line for trail in trails for line in trail.lines), key=lambda line: line.key)
    return [line.text for line in lines]
