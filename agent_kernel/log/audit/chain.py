"""The audit trail: entries that are chained by SHA-256. `entries` says which there are.

An entry is one line of JSON in a canonical form: UTF-8, keys in order, no space between tokens, nothing escaped that
need not be. Its `previous` is the SHA-256 of the entry before it, of exactly those bytes (64 zeros for the first), so
an export can be checked without this program. Entries are added in the transaction that does what they record. SQLite
refuses to change or remove one, and they outlive their conversation. `audit_head` names the last entry, so that a
cut-off end is noticed too.

Whoever may write the file can remove the triggers and write a whole new chain. Only a hash that was noted elsewhere
shows that: every event on the server's event log carries one, and `agent-kernel audit --check` prints one.
"""

import hashlib
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

import orjson

from agent_kernel.protocol.events import utc_now

VERSION = 1
"""Of the entries' fields."""
NO_ENTRY = "0" * 64
"""What the first entry has as `previous`."""

Kind = Literal["decision", "outcome", "rule", "stop", "undo", "budget", "unknown", "message", "policy"]


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry as it was written. `hash` is the SHA-256 of `text`, in hexadecimal."""

    number: int
    text: str
    hash: str

    @property
    def fields(self) -> dict[str, Any]:
        fields: dict[str, Any] = orjson.loads(self.text)
        return fields


@dataclass(frozen=True, slots=True)
class Fault:
    """The first entry that does not fit, and why."""

    number: int
    why: str


@dataclass(frozen=True, slots=True)
class Head:
    """The number of entries, and the hash of the last."""

    number: int
    hash: str


def append(sql: sqlite3.Connection, kind: Kind, fields: dict[str, Any]) -> Entry:
    """Add an entry at the end, of now unless it says `at`. Fields that are `None` are left out."""
    last = read_head(sql)
    number = last.number + 1
    said = {name: value for name, value in fields.items() if value is not None}
    entry = {"version": VERSION, "number": number, "previous": last.hash, "at": utc_now(), "kind": kind, **said}
    text = orjson.dumps(entry, option=orjson.OPT_SORT_KEYS)
    added = Entry(number, text.decode(), _hash(text))
    row = (added.number, added.text, added.hash)
    sql.execute("INSERT INTO audit VALUES (?, ?, ?)", row)  # a trigger moves the head along
    return added


def read_head(sql: sqlite3.Connection) -> Head:
    row = sql.execute("SELECT number, hash FROM audit_head").fetchone()
    return Head(*row) if row is not None else Head(0, NO_ENTRY)


def read_entries(sql: sqlite3.Connection, after: int = 0) -> Iterator[Entry]:
    """The entries after a number, the oldest first."""
    rows = sql.execute("SELECT number, CAST(entry AS BLOB), hash FROM audit WHERE number > ? ORDER BY number", (after,))
    for number, stored, hashed in rows:
        # A file that was tampered with may hold a text that is not UTF-8.
        yield Entry(number, stored.decode(errors="replace"), hashed)


def export(
    sql: sqlite3.Connection, *, conversation_id: str | None = None, since: datetime | None = None
) -> Iterator[str]:
    """The entries as lines of JSON, exactly as they were hashed. `since` without a zone is UTC.

    Raises `ValueError` at one that can't be read any more."""
    if since is not None and since.tzinfo is None:
        since = since.replace(tzinfo=UTC)
    decided: set[str] = set()
    """The approval ids of the conversation's decisions: other entries about those calls don't name it."""
    for entry in read_entries(sql):
        fields = entry.fields
        if conversation_id is not None:
            if fields.get("conversation_id") != conversation_id and fields.get("approval_id") not in decided:
                continue
            if fields["kind"] == "decision":
                decided.add(fields["approval_id"])
        if since is not None and datetime.fromisoformat(fields["at"]) < since:
            continue
        yield entry.text


def check(sql: sqlite3.Connection) -> Fault | None:
    """The first entry that was changed, moved or removed since it was written; `None` if all fit."""
    last = Head(0, NO_ENTRY)
    for entry in read_entries(sql):
        if entry.number != last.number + 1:
            return Fault(entry.number, f"it follows entry {last.number}: what was between them was removed")
        why = _misfit(entry, last)
        if why is not None:
            return Fault(entry.number, why)
        last = Head(entry.number, entry.hash)
    head = read_head(sql) if sql.execute("SELECT 1 FROM audit_head").fetchone() else None
    if head is None:
        return None if last.number == 0 else Fault(last.number, "the record of the last entry was removed")
    if head.number > last.number:
        return Fault(last.number + 1, f"it was removed, with all that followed it up to {head.number}")
    if head != last:
        return Fault(last.number, "it is not the entry that was written last")
    return None


def _misfit(entry: Entry, last: Head) -> str | None:
    text = entry.text.encode()
    if _hash(text) != entry.hash:
        return "its content was changed"
    fields = _parse(text)
    if fields is None:
        return "it can't be read"
    if fields.get("number") != entry.number:
        return f"it was written as number {fields.get('number')}"
    if fields.get("previous") != last.hash:
        return "it was not written after the entry that is before it now"
    return None


def _parse(text: bytes) -> dict[str, Any] | None:
    try:
        fields = orjson.loads(text)
    except orjson.JSONDecodeError:
        return None
    return fields if isinstance(fields, dict) else None


def _hash(text: bytes) -> str:
    return hashlib.sha256(text).hexdigest()
