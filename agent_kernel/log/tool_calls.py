"""Tool calls: their rows, and the state machine of a call, enforced in this one place by compare-and-set.

    proposed -> invalid | denied | awaiting_approval | approved
    awaiting_approval -> approved | denied | superseded | expired | cancelled
    approved -> executing | denied (judged again at execution) | cancelled
    executing -> success | error | cancelled | unknown

A call that has not started can be cancelled or superseded from any state. Moves that follow each other at once are one
statement: a decision with the start, or a proposal with both. Each function that changes a call runs inside a
transaction of the log (`store.Log.write`): the call, its event and its audit entry are committed together, before
anything acts on them. What it adds to the audit trail goes to `audited` as well, for those who listen to that.
"""

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from agent_kernel.errors import AlreadyDecided, DigestMismatch, IllegalTransition, UnknownApproval, UnknownToolCall
from agent_kernel.log import audit
from agent_kernel.log.audit import AuditedEntry
from agent_kernel.log.packing import pack, unpack
from agent_kernel.log.runs import one_row
from agent_kernel.protocol.calls import Place
from agent_kernel.protocol.events import utc_now
from agent_kernel.protocol.views import Preview, ToolCallView, Warning
from agent_kernel.protocol.vocabulary import CallState, DecidedBy, DecisionSource, Scope, UnknownAnswer

NEXT: dict[CallState, frozenset[CallState]] = {
    "proposed": frozenset({"invalid", "denied", "awaiting_approval", "approved", "cancelled", "superseded"}),
    "awaiting_approval": frozenset({"approved", "denied", "superseded", "expired", "cancelled"}),
    "approved": frozenset({"executing", "denied", "cancelled", "superseded"}),
    "executing": frozenset({"success", "error", "cancelled", "unknown"}),
    "invalid": frozenset(),
    "success": frozenset(),
    "error": frozenset(),
    "denied": frozenset(),
    "cancelled": frozenset(),
    "superseded": frozenset(),
    "expired": frozenset(),
    "unknown": frozenset(),
}
UNDECIDED: tuple[CallState, ...] = ("proposed", "awaiting_approval")
UNFINISHED: tuple[CallState, ...] = ("proposed", "awaiting_approval", "approved", "executing")
_STARTED: tuple[CallState, ...] = ("executing", "success", "error", "unknown")

_COLUMNS = (
    "tool_call_id, approval_id, run_id, tool_name, tool_input, digest, state, reason, decided_via, decided_by, edited, "
    "read_only, recorded, warnings, preview, created_at, decided_at, started_at, ended_at, duration_ms, "
    "result, truncated, output_file, undo, undone, waiting_behind, unknown_answer, "
    "seen_images, place, cached_at"
)
CALL = f"{_COLUMNS}, (SELECT conversation_id FROM conversations WHERE number = conversation)"
"""The columns that `call_values` takes, for a SELECT and for RETURNING alike."""
_SELECT = f"SELECT {CALL} FROM tool_calls"
_FIELDS = [*_COLUMNS.split(", "), "conversation_id"]
_FLAGS = [name for name, field in ToolCallView.model_fields.items() if field.annotation is bool]


@dataclass(frozen=True, slots=True)
class Proposal:
    """A call as the model asked for it, validated or not."""

    tool_call_id: str
    approval_id: str
    run_id: str
    tool_name: str
    tool_input: str
    digest: str
    read_only: bool
    recorded: bool
    warnings: tuple[Warning, ...] = ()
    preview: Preview | None = None


_PROPOSED = "tool_call_id", "approval_id", "run_id", "tool_name", "tool_input", "digest", "read_only", "recorded"
"""The fields of a proposal that are columns of its row."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """A decision on one call, by policy, a person or a script."""

    approved: bool
    by: DecidedBy
    reason: str | None = None
    decided_by: str | None = None
    scope: Scope = "once"
    edit: "Edit | None" = None
    place: Place | None = None
    """Where the path of a file tool's call leads, if no one was asked; else the approval request has stored it."""
    source: DecisionSource | None = None
    """What decided, where that is more exact than `by`."""


@dataclass(frozen=True, slots=True)
class Edit:
    """Arguments that replace the model's. They have been validated and judged by policy."""

    tool_input: str
    digest: str
    warnings: tuple[Warning, ...] = ()
    preview: Preview | None = None
    place: Place | None = None


def propose(sql: sqlite3.Connection, conversation: int, proposal: Proposal) -> ToolCallView:
    columns = {name: getattr(proposal, name) for name in _PROPOSED} | {
        "conversation": conversation,
        "state": "proposed",
        "created_at": utc_now(),
        "warnings": _dump_warnings(proposal.warnings),
        "preview": _dump_preview(proposal.preview),
    }
    rows = sql.execute(
        f"INSERT INTO tool_calls ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))}) RETURNING {CALL}",
        tuple(columns.values()),
    )
    return _view(rows.fetchall()[0])


def move(
    sql: sqlite3.Connection,
    conversation: int,
    tool_call_id: str,
    target: CallState,
    audited: list[AuditedEntry],
    place: Place | None = None,
    **columns: Any,
) -> ToolCallView:
    """Compare-and-set: move a call to `target` if its state allows it, and set columns of its row. An end goes to the
    audit trail.

    Returns the call as it is then. Raises `UnknownToolCall`, `IllegalTransition`.
    """
    if place is not None:
        columns["place"] = _dump_place(place)
    moved = _compare_and_set(sql, _key(conversation, tool_call_id), target, columns)
    if moved is None:
        raise _illegal(read_call(sql, conversation, tool_call_id), target)
    if not NEXT[target]:
        audited.append(audit.record_outcome(sql, moved))
    return moved


def _key(conversation: int, tool_call_id: str) -> dict[str, Any]:
    return {"conversation": conversation, "tool_call_id": tool_call_id}


def _illegal(call: ToolCallView, target: CallState) -> IllegalTransition:
    return IllegalTransition(f"The call {call.tool_call_id} is {call.state} and can't become {target}.")


def _compare_and_set(
    sql: sqlite3.Connection,
    key: dict[str, Any],
    target: CallState,
    columns: dict[str, Any],
    *,
    origins: Sequence[CallState] = tuple(NEXT),
    digest: str | None = None,
) -> ToolCallView | None:
    """Move the call with this key to `target`, from those of the `origins` that may go there; with a `digest`, only if
    the call's arguments have it. `None` if there is no such call."""
    if columns.get("result") is not None:
        columns = columns | {"result": pack(columns["result"])}
    assignments = "".join(f", {name} = :{name}" for name in columns)
    found = " AND ".join(f"{name} = :key_{name}" for name in key)
    states = ", ".join(f"'{state}'" for state in origins if target in NEXT[state])
    updated = sql.execute(
        f"UPDATE tool_calls SET state = :target{assignments} "
        f"WHERE {found} AND state IN ({states}) AND digest = coalesce(:wanted, digest) RETURNING {CALL}",
        {"target": target, "wanted": digest, **{f"key_{name}": value for name, value in key.items()}, **columns},
    ).fetchall()
    return _view(updated[0]) if updated else None


def commit_decision(
    sql: sqlite3.Connection,
    approval_id: str,
    verdict: Verdict,
    audited: list[AuditedEntry],
    *,
    denial: str,
    seen_digest: str | None = None,
) -> ToolCallView:
    """Commit the first decision on a call that waits for one, or that policy decides at once.

    `denial` becomes the call's result if it is denied. `seen_digest` is that of the arguments that were shown; the
    decision counts for exactly those.
    Raises `UnknownApproval`, `AlreadyDecided` (with the first decision), `DigestMismatch`.
    """
    now = utc_now()
    columns = _decided(verdict, now)
    if verdict.edit is not None:
        columns |= {
            "tool_input": verdict.edit.tool_input,
            "digest": verdict.edit.digest,
            "edited": True,
            "warnings": _dump_warnings(verdict.edit.warnings),
            "preview": _dump_preview(verdict.edit.preview),
            "place": _dump_place(verdict.edit.place),
        }
    if not verdict.approved:
        columns |= {"ended_at": now, "result": denial}
    target: CallState = "approved" if verdict.approved else "denied"
    key = {"approval_id": approval_id}
    decided = _compare_and_set(sql, key, target, columns, origins=UNDECIDED, digest=seen_digest)
    if decided is None:
        call = find_approval(sql, approval_id)
        if call.state not in UNDECIDED:
            raise already_decided(call)
        raise DigestMismatch("This decision was made for other arguments than the call has. Nothing was decided.")
    audited.append(audit.record_decision(sql, decided, verdict.scope))
    if not verdict.approved:
        audited.append(audit.record_outcome(sql, decided))
    return decided


def _decided(verdict: Verdict, now: str) -> dict[str, Any]:
    place = {} if verdict.place is None else {"place": _dump_place(verdict.place)}
    return {
        "reason": verdict.reason,
        "decided_via": verdict.by,
        "decided_by": verdict.decided_by,
        "decision_source": verdict.source or verdict.by,
        "decided_at": now,
        **place,
    }


def begin(sql: sqlite3.Connection, conversation: int, tool_call_id: str, digest: str) -> ToolCallView:
    """`approved -> executing`, committed before the side effect, for exactly these arguments.

    Returns the call as it is then. Raises `DigestMismatch`, `IllegalTransition`.
    """
    now = _compare_and_set(sql, _key(conversation, tool_call_id), "executing", {"started_at": utc_now()}, digest=digest)
    if now is None:
        call = read_call(sql, conversation, tool_call_id)
        if call.digest != digest:
            raise DigestMismatch(f"The call {tool_call_id} was approved for other arguments.")
        raise _illegal(call, "executing")
    return now


def unknown_digests(sql: sqlite3.Connection, conversation: int) -> set[str]:
    """The digests of the calls whose outcome is unknown; those of a client in all of its conversations."""
    rows = sql.execute(
        "SELECT digest FROM tool_calls WHERE state = 'unknown' AND (conversation = :number OR conversation IN "
        "(SELECT number FROM conversations WHERE client_home = "
        "(SELECT client_home FROM conversations WHERE number = :number)))",
        {"number": conversation},
    )
    return {digest for (digest,) in rows}


def read_call(sql: sqlite3.Connection, conversation: int, tool_call_id: str) -> ToolCallView:
    """Raises `UnknownToolCall`."""
    row = sql.execute(f"{_SELECT} WHERE conversation = ? AND tool_call_id = ?", (conversation, tool_call_id)).fetchone()
    if row is None:
        raise UnknownToolCall(tool_call_id)
    return _view(row)


def find_approval(sql: sqlite3.Connection, approval_id: str) -> ToolCallView:
    """Raises `UnknownApproval`."""
    return _view(one_row(sql, f"{_SELECT} WHERE approval_id = ?", approval_id, UnknownApproval))


def list_calls(
    sql: sqlite3.Connection, *, conversation: int | None = None, run_id: str | None = None, state: str | None = None
) -> list[ToolCallView]:
    """Calls in the order in which they were proposed, of one conversation, run or state, or all."""
    if state is not None and state not in NEXT:
        return []
    wanted = {"conversation": conversation, "run_id": run_id}
    conditions = [f"{column} = :{column}" for column, value in wanted.items() if value is not None]
    if state is not None:  # as a literal: SQLite uses the index of one state for nothing else
        conditions.append(f"state = '{state}'")
    where = f"WHERE {' AND '.join(conditions)}" if conditions else ""
    rows = sql.execute(f"{_SELECT} {where} ORDER BY tool_calls.number", wanted)
    return [_view(row) for row in rows]


def list_open(sql: sqlite3.Connection, run_id: str) -> list[ToolCallView]:
    """The calls of a run that have not ended, or whose unknown outcome was not answered, in order."""
    rows = sql.execute(
        f"{_SELECT} WHERE run_id = ? AND (state IN {UNFINISHED} OR state = 'unknown' AND unknown_answer IS NULL) "
        "ORDER BY tool_calls.number",
        (run_id,),
    )
    return [_view(row) for row in rows]


def count_states(sql: sqlite3.Connection, run_id: str) -> dict[CallState, int]:
    """The number of a run's calls in each state."""
    return dict(sql.execute("SELECT state, count(*) FROM tool_calls WHERE run_id = ? GROUP BY state", (run_id,)))


def count_waiting(sql: sqlite3.Connection) -> int:
    """The number of calls that wait for a decision."""
    (count,) = sql.execute("SELECT count(*) FROM tool_calls WHERE state = 'awaiting_approval'").fetchone()
    return int(count)


def set_card(
    sql: sqlite3.Connection, conversation: int, tool_call_id: str, preview: Preview | None, warnings: Sequence[Warning]
) -> None:
    """Replace what the card of a call shows in place of its arguments, and what it warns of."""
    columns = {"preview": _dump_preview(preview), "warnings": _dump_warnings(warnings)}
    _set(sql, conversation, tool_call_id, columns)


def set_waiting(sql: sqlite3.Connection, conversation: int, tool_call_id: str, cell: int | None) -> None:
    """Note the number of the user's own cell that the kernel runs before a call that is executing."""
    _set(sql, conversation, tool_call_id, {"waiting_behind": cell})


def set_undone(sql: sqlite3.Connection, conversation: int, tool_call_id: str, *, undone: bool) -> None:
    """Note whether what the call wrote was taken back."""
    _set(sql, conversation, tool_call_id, {"undone": undone})


def _set(sql: sqlite3.Connection, conversation: int, tool_call_id: str, columns: dict[str, Any]) -> None:
    """Change columns that decide neither whether nor what the call runs."""
    sql.execute(
        f"UPDATE tool_calls SET {', '.join(f'{name} = ?' for name in columns)} "
        "WHERE conversation = ? AND tool_call_id = ?",
        (*columns.values(), conversation, tool_call_id),
    )


def answer_unknown(sql: sqlite3.Connection, conversation: int, tool_call_id: str, answer: UnknownAnswer) -> bool:
    """Note what a person wants done about a call whose outcome is unknown. False if it was answered before."""
    updated = sql.execute(
        "UPDATE tool_calls SET unknown_answer = ? "
        "WHERE conversation = ? AND tool_call_id = ? AND state = 'unknown' AND unknown_answer IS NULL",
        (answer, conversation, tool_call_id),
    ).rowcount
    return updated == 1


def already_decided(call: ToolCallView) -> AlreadyDecided:
    """The refusal of a decision on a call that waits for none, with the decision that holds."""
    what = "approved" if call.state in _STARTED else call.state
    who = call.decided_by or {"user": "a person", "policy": "policy", "script": "a script", None: "nobody"}[call.by]
    return AlreadyDecided(f"Already decided: {what}, by {who}, {call.decided_at or call.ended_at}.", call.model_dump())


def _view(row: Sequence[Any]) -> ToolCallView:
    return ToolCallView.model_validate(call_values(row))


def call_values(row: Sequence[Any]) -> dict[str, Any]:
    """The fields of `ToolCallView`, of a row with the columns `CALL`. Raises `Unreadable`."""
    values = dict(zip(_FIELDS, row, strict=True))
    values["by"] = values.pop("decided_via")
    for name in _FLAGS:
        values[name] = bool(values[name])
    values["warnings"] = orjson.loads(values["warnings"])
    values["preview"] = values["preview"] and orjson.loads(unpack(values["preview"]))
    values["result"] = values["result"] and unpack(values["result"])
    values["place"] = values["place"] and orjson.loads(values["place"])
    if values["state"] != "executing":
        values["waiting_behind"] = None  # it is not cleared when the call ends
    return values


def _dump_preview(preview: Preview | None) -> str | bytes | None:
    return pack(preview.model_dump_json()) if preview is not None else None


def _dump_place(place: Place | None) -> str | None:
    return orjson.dumps(place).decode() if place is not None else None


def _dump_warnings(warnings: Sequence[Warning]) -> str:
    return orjson.dumps([warning.model_dump() for warning in warnings]).decode()
