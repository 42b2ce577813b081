"""The audit trail: entries that are chained by SHA-256, one for each decision on a tool call, one for each outcome, and
one for whatever else a person decides.

An entry is one line of JSON in a canonical form: UTF-8, keys in order, no space between tokens, nothing escaped that
need not be. Its `previous` is the SHA-256 of the entry before it, of exactly those bytes (64 zeros for the first), so
an export can be checked without this program. Entries are added in the transaction that does what they record. SQLite
refuses to change or remove one, and they outlive their conversation. The table `audit_head` names the last entry, so
that a cut-off end is noticed too.

Whoever may write the file can remove the triggers and write a whole new chain. Only a hash that was noted elsewhere
shows that: every event on the server's event log carries one, and `agent-kernel audit --check` prints one.

All entries about a call have its `approval_id`. What the call is, and who decided, is in the decision; the others refer
to it by that id alone. The outcome of a call that was never decided says what the call was.
"""

import hashlib
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

import orjson

from agent_kernel.protocol.events import PolicyEvent, utc_now
from agent_kernel.protocol.views import BudgetRaise, RunView, ToolCallView
from agent_kernel.protocol.vocabulary import DecidedBy, Scope, UnknownAnswer

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


AuditedEntry = tuple[Entry, dict[str, Any]]
"""A decision or an outcome, for those who listen: its entry, and its fields, with those that say which call it is
about."""
_CALL_FIELDS = ("conversation_id", "run_id", "tool_call_id", "approval_id", "tool_name", "digest")


def record_decision(sql: sqlite3.Connection, call: ToolCallView, scope: Scope) -> AuditedEntry:
    """Add a decision, in the transaction that makes it. `call` is as the decision left it."""
    fields = {
        "at": call.decided_at,
        "decision": "denied" if call.state == "denied" else "approved",
        "scope": scope,
        "edited": call.edited or None,
        "by": call.by,
        "decided_by": call.decided_by,
        "reason": call.reason,
    }
    return _audited(append(sql, "decision", _identity(call) | _asked_by(sql, call) | fields), call)


def record_outcome(sql: sqlite3.Connection, call: ToolCallView) -> AuditedEntry:
    """Add the end of a call, in the transaction that ends it."""
    fields = {
        "at": call.ended_at,
        "state": call.state,
        "started_at": call.started_at,
        "duration_ms": call.duration_ms,
        "reason": call.reason,
        "cached_at": call.cached_at,
    }
    return _audited(append(sql, "outcome", _of_call(call) | _asked_by(sql, call) | fields), call)


def record_undo(
    sql: sqlite3.Connection,
    call: ToolCallView,
    decided_by: str | None,
    *,
    by: DecidedBy,
    redo: bool,
    refused: str | None = None,
) -> None:
    """Add, before it is done, that what a call wrote is taken back, or to `redo` written again, by the person
    `decided_by` if one is known; or, after that, why it was `refused`."""
    said = {"by": by, "decided_by": decided_by, "redo": redo or None, "refused": refused}
    append(sql, "undo", _of_call(call) | said)


def record_stop(
    sql: sqlite3.Connection,
    run: RunView,
    tool_call_ids: Sequence[str],
    *,
    whole_run: bool,
    by: DecidedBy,
    decided_by: str | None,
) -> None:
    """Add that a run was stopped, or one call of it cancelled. `tool_call_ids` are the calls that this ended before
    they started, and those that ran and were told to end; the end of each is an outcome entry of its own."""
    said = {"tool_call_ids": list(tool_call_ids), "whole_run": whole_run, "by": by, "decided_by": decided_by}
    append(sql, "stop", _of_run(run) | said)


def record_message(
    sql: sqlite3.Connection, run: RunView, decided_by: str | None, tool_call_ids: Sequence[str] = ()
) -> None:
    """Add that a person's message took the place of calls that had not started, each of which has an outcome too; or,
    where there are none, of a run that was paused at its budget."""
    said = {"tool_call_ids": list(tool_call_ids), "by": "user", "decided_by": decided_by}
    append(sql, "message", _of_run(run) | said)


def record_rule(
    sql: sqlite3.Connection,
    action: Literal["saved", "removed"],
    rule_id: str,
    *,
    conversation_id: str | None,
    text: str,
    scope: Scope | None,
    decided_by: str | None,
    by: DecidedBy = "user",
) -> None:
    """Add that an always-allow rule came into force or was taken out of it, in the transaction that does so.
    `conversation_id` is the one in which that was done, or that the rule was for; `None` where there is none."""
    fields = {
        "action": action,
        "rule_id": rule_id,
        "conversation_id": conversation_id,
        "rule": text,
        "scope": scope,
        "by": by,
        "decided_by": decided_by,
    }
    append(sql, "rule", fields)


def record_policy(sql: sqlite3.Connection, conversation_id: str, switch: PolicyEvent) -> None:
    """Add that a person switched the policy of a conversation, and of its run that was under way, if there was one."""
    fields = {
        "conversation_id": conversation_id,
        "run_id": switch.run_id,
        "before": switch.before,
        "after": switch.mode,
        **({"decide_waiting": True} if switch.decide_waiting else {}),
        "by": "user",
        "decided_by": switch.decided_by,
    }
    append(sql, "policy", fields)


def record_raise(sql: sqlite3.Connection, run: RunView, step: BudgetRaise) -> None:
    """Add that a person raised the budget of a run or of its conversation, or told a run that repeats itself to go on.
    `run` is as it was left by that."""
    fields = {
        "at": step.at,
        "pause_id": step.pause_id,
        "added": step.add.given(),
        "budget": run.budget.given(),
        **({"without_usd": True} if step.without_usd else {}),
        **({"of": step.of, "limits": limits} if (limits := _of_conversation(run, step)) is not None else {}),
        **({"repeated": step.repeated} if step.repeated else {}),
        "spent": run.usage.model_dump(),
        "by": "user",
        "decided_by": step.decided_by,
    }
    append(sql, "budget", _of_run(run) | fields)


def _of_conversation(run: RunView, step: BudgetRaise) -> dict[str, Any] | None:
    """The conversation's limits, where those were raised."""
    if step.of == "run" or run.conversation_budget is None:
        return None
    return run.conversation_budget.limits.given()


def record_unknown_answer(
    sql: sqlite3.Connection, call: ToolCallView, answer: UnknownAnswer, decided_by: str | None
) -> None:
    """Add what a person said about a call whose outcome is unknown."""
    said = {"answer": answer, "by": "user", "decided_by": decided_by}
    append(sql, "unknown", _of_call(call) | said)


def _audited(entry: Entry, call: ToolCallView) -> AuditedEntry:
    return entry, {name: getattr(call, name) for name in _CALL_FIELDS} | entry.fields


def _asked_by(sql: sqlite3.Connection, call: ToolCallView) -> dict[str, Any]:
    """The agent outside that asked for a call, by the name that it gave, and on whose behalf; nothing for a model."""
    client, user = sql.execute(
        "SELECT client, client_user FROM conversations WHERE conversation_id = ?", (call.conversation_id,)
    ).fetchone()
    return {"client": client, "asked_by": user}


def _of_run(run: RunView) -> dict[str, Any]:
    return {"conversation_id": run.conversation_id, "run_id": run.run_id}


def _of_call(call: ToolCallView) -> dict[str, Any]:
    """The reference to a call, for an entry that is not its decision."""
    return {"approval_id": call.approval_id} if call.by is not None else _identity(call)


def _identity(call: ToolCallView) -> dict[str, Any]:
    return {
        "conversation_id": call.conversation_id,
        "run_id": call.run_id,
        "tool_call_id": call.tool_call_id,
        "approval_id": call.approval_id,
        "tool_name": call.tool_name,
        "arguments": call.tool_input,
        "digest": call.digest,
    }
