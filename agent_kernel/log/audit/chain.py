"""The audit trail: one entry for each decision on a tool call and one for each outcome, chained by SHA-256. What else a
person decides is in it too: a rule that is saved or removed, a run or a call that is stopped, a message that took the
place of waiting calls or of a paused run, a call that is undone, a budget that is raised, what is to become of a call
whose outcome is unknown.

An entry is one line of JSON in a canonical form: UTF-8, keys in order, no space between tokens, nothing escaped that
need not be. Its `previous` is the SHA-256 of the entry before it, of exactly those bytes (64 zeros for the first), so
an export can be checked without this program. Entries are added in the transaction that moves the call. SQLite refuses
to change or remove one, and they outlive their conversation. `audit_head` names the last entry, so that a cut-off end
is noticed too.

An entry is stored compressed against the hash of the entry before it, and every second one against that entry's text
as well: an outcome says again what the decision said. The hash is the text's, so a change in what is stored shows.

Whoever may write the file can remove the triggers and write a whole new chain. Only a hash that was noted elsewhere
shows that: every event on the server's event log carries one, and so does `agent-kernel audit --check`.
"""

import hashlib
import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

import orjson

from agent_kernel.log.bodies import pack_against, unpack

VERSION = 1
NO_ENTRY = "0" * 64
"""What the first entry names as the one before it."""

Kind = Literal["decision", "outcome", "rule", "stop", "undo", "budget", "unknown", "message", "policy"]


@dataclass(frozen=True, slots=True)
class Entry:
    """A row of the trail. `hash` is the SHA-256 of `text`."""

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
    """How many entries there are, and the hash of the last."""

    number: int
    hash: str


def append(sql: sqlite3.Connection, kind: Kind, fields: dict[str, Any]) -> None:
    last, before = _last_two(sql)
    number = last.number + 1
    entry = {"version": VERSION, "number": number, "previous": last.hash, "kind": kind, **fields}
    text = orjson.dumps(entry, option=orjson.OPT_SORT_KEYS)
    known = _known(number, last.hash, lambda: _text(last, before.hash))
    # A trigger moves the head along.
    sql.execute(
        "INSERT INTO audit VALUES (?, ?, ?)", (number, pack_against(text.decode(), known), bytes.fromhex(_hash(text)))
    )


@dataclass(frozen=True, slots=True)
class _Row:
    """A row as it is stored."""

    number: int
    stored: str | bytes
    hash: str


_NO_ROW = _Row(0, "", NO_ENTRY)


def _last_two(sql: sqlite3.Connection) -> tuple[_Row, _Row]:
    """The last row and the one before it."""
    row = sql.execute(
        "SELECT audit_head.number, last.entry, audit_head.hash, before.hash FROM audit_head "
        "LEFT JOIN audit AS last ON last.number = audit_head.number "
        "LEFT JOIN audit AS before ON before.number = audit_head.number - 1"
    ).fetchone()
    if row is None or row[1] is None:
        return _NO_ROW, _NO_ROW
    number, stored, last, before = row
    return _Row(number, stored, _hex(last)), _Row(number - 1, "", _hex(before) if number > 1 else NO_ENTRY)


def _hex(stored: str | bytes) -> str:
    """A hash as it is written. Logs of schema 1 store it so, later ones its bytes."""
    return stored.hex() if isinstance(stored, bytes) else stored


def _known(number: int, hash_before: str, text_before: Callable[[], str]) -> bytes:
    """What an entry is compressed against. Not every one against the text before it: to read one, all would be read."""
    return (text_before() if number % 2 == 0 else "").encode() + hash_before.encode()


def _text(row: _Row, hash_before: str, text_before: str = "") -> str:
    """The entry of a row. `text_before` is used for those of even numbers. Raises `ValueError`."""
    return unpack(row.stored, _known(row.number, hash_before, lambda: text_before))


def read_head(sql: sqlite3.Connection) -> Head:
    row = sql.execute("SELECT number, hash FROM audit_head").fetchone()
    return Head(row[0], _hex(row[1])) if row is not None else Head(0, NO_ENTRY)


def _read_rows(sql: sqlite3.Connection, after: int = 0) -> Iterator[_Row]:
    rows = sql.execute(
        "SELECT number, typeof(entry), CAST(entry AS BLOB), hash FROM audit WHERE number > ? ORDER BY number", (after,)
    )
    for number, kind, stored, hashed in rows:
        # Text that is none is what somebody has tampered with.
        yield _Row(number, stored.decode(errors="replace") if kind == "text" else stored, _hex(hashed))


def read_entries(sql: sqlite3.Connection, after: int = 0) -> Iterator[Entry]:
    """The entries after a number, oldest first. Raises `ValueError` at one that can't be read any more."""
    # An even one needs the text of the odd one before it, which needs the hash of the one before that.
    last_hash, last_text = NO_ENTRY, ""
    for row in _read_rows(sql, after - 2):
        if row.number >= after and (row.number > after or row.number % 2):
            last_text = _text(row, last_hash, last_text)
        if row.number > after:
            yield Entry(row.number, last_text, row.hash)
        last_hash = row.hash


def export(
    sql: sqlite3.Connection, *, conversation_id: str | None = None, since: datetime | None = None
) -> Iterator[str]:
    """The entries as lines of JSON, exactly as they were hashed. `since` without a zone is UTC."""
    if since is not None and since.tzinfo is None:
        since = since.replace(tzinfo=UTC)
    for entry in read_entries(sql):
        if conversation_id is None and since is None:
            yield entry.text
            continue
        fields = entry.fields
        if conversation_id is not None and fields["conversation_id"] != conversation_id:
            continue
        if since is not None and datetime.fromisoformat(fields["at"]) < since:
            continue
        yield entry.text


def check(sql: sqlite3.Connection) -> Fault | None:
    """The first entry that was changed, moved or removed since it was written; `None` where all fit."""
    last = Entry(0, "", NO_ENTRY)
    for row in _read_rows(sql):
        if row.number != last.number + 1:
            return Fault(row.number, f"it follows entry {last.number}: what was between them was removed")
        try:
            entry = Entry(row.number, _text(row, last.hash, last.text), row.hash)
        except ValueError:
            return Fault(
                row.number, "its content was changed, or it was not written after the entry that is before it now"
            )
        why = _misfit(entry, last)
        if why is not None:
            return Fault(entry.number, why)
        last = entry
    head = read_head(sql) if sql.execute("SELECT 1 FROM audit_head").fetchone() else None
    if head is None:
        return None if last.number == 0 else Fault(last.number, "the record of the last entry was removed")
    if head.number > last.number:
        return Fault(last.number + 1, f"it was removed, with all that followed it up to {head.number}")
    if head != Head(last.number, last.hash):
        return Fault(last.number, "it is not the entry that was written last")
    return None


def _misfit(entry: Entry, last: Entry) -> str | None:
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
