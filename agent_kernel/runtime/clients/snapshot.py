"""Conversations as JSON for clients and for HTTP, put together from the log's rows (see `log.queries`).

The shape is that of `ConversationView` and `SessionEvent`. Tests hold both against what is made here.
"""

import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import orjson

from agent_kernel.approvals.offers import with_offers
from agent_kernel.log import events, queries, runs
from agent_kernel.log.queries import Values
from agent_kernel.protocol.events import utc_now
from agent_kernel.protocol.views import ToolCallView, ToolView
from agent_kernel.protocol.vocabulary import PROTOCOL_VERSION, RunStatus
from agent_kernel.tools.declaration import ToolDeclaration

_TOGETHER = 100
"""Conversations of a list that are read at once. Values of all of them would take ten times the memory of the JSON,
and each of the garbage collector's passes would go through them."""
_OPEN: frozenset[RunStatus] = frozenset({"queued", "running"})
_EVENTS_READ = 20_000
"""Of a conversation with more events, what the model is writing comes when it is whole."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A conversation at one moment."""

    conversation_id: str
    text: bytes
    """A `ConversationView` as JSON."""
    pending: list[Values]
    """The calls that wait for a decision."""
    last_seq: int
    resume_from: int
    """Of the events up to this one none shows what the rest does not."""


def read_snapshot(sql: sqlite3.Connection, conversation_id: str) -> Snapshot:
    """The whole conversation, calls with their outputs. Raises `UnknownConversation`."""
    row = runs.read_conversation(sql, conversation_id)
    [(values, pending)] = _read(sql, [(row, events.last_seq(sql, row.number))])
    if values["runs"] and (last := values["runs"][-1])["status"] == "error":
        values["messages"] += events.cut_off_answers(sql, row.number, last["run_id"])
    resume_from = _resume_from(sql, row.number, values)
    return Snapshot(conversation_id, orjson.dumps(values), pending, values["last_seq"], resume_from)


def read_list(sql: sqlite3.Connection, *, after: str | None = None, limit: int = -1) -> bytes:
    """A JSON array of conversations, the oldest first: those after one of them, or so many.
    Raises `UnknownConversation`."""
    first = runs.read_conversation(sql, after).number if after is not None else 0
    rows = queries.list_rows(sql, first, limit)
    parts = [
        orjson.dumps([values for values, _ in _read(sql, rows[start : start + _TOGETHER])])[1:-1]
        for start in range(0, len(rows), _TOGETHER)
    ]
    return b"[%s]" % b",".join(parts)


def tool_views(declared: Iterable[ToolDeclaration]) -> list[ToolView]:
    return [
        ToolView(name=tool.name, description=tool.description, parameters=tool.parameters, approval=tool.approval)
        for tool in declared
    ]


def session_frame(snapshot: Snapshot, tools: Sequence[ToolView], command_id: str | None = None) -> bytes:
    """The `session` event with a snapshot; `command_id` is that of the `resume` that has led to it."""
    return orjson.dumps(
        {
            "seq": snapshot.last_seq,
            "conversation_id": snapshot.conversation_id,
            "run_id": None,
            "timestamp": utc_now(),
            "command_id": command_id,
            "type": "session",
            "protocol": PROTOCOL_VERSION,
            "tools": [tool.model_dump() for tool in tools],
            "snapshot": orjson.Fragment(snapshot.text),
            "pending": snapshot.pending,
            "last_seq": snapshot.last_seq,
            "resume_from": snapshot.resume_from,
        }
    )


def _resume_from(sql: sqlite3.Connection, conversation: int, values: Values) -> int:
    last: int = values["last_seq"]
    open_runs = {run["run_id"] for run in values["runs"] if run["status"] in _OPEN}
    if not open_runs or last > _EVENTS_READ:
        return last
    known = {call["tool_call_id"] for call in values["tool_calls"]}
    first = events.shown_only_by_events(sql, conversation, open_runs, known)
    return last if first is None else first - 1


def _read(
    sql: sqlite3.Connection, rows: Sequence[tuple[runs.ConversationRow, int]]
) -> list[tuple[Values, list[Values]]]:
    """Each as a `ConversationView`, and its calls that wait for a decision. There has to be one. It takes as many
    statements for many as for one."""
    span = (rows[0][0].number, rows[-1][0].number)
    messages, calls = queries.messages(sql, span), queries.calls(sql, span)
    outputs, views = queries.outputs(sql, span), queries.runs(sql, span)
    found: list[tuple[Values, list[Values]]] = []
    for row, last_seq in rows:
        own = [_offered(call | {"outputs": outputs[row.number][call["tool_call_id"]]}) for call in calls[row.number]]
        pending = [call for call in own if call["state"] == "awaiting_approval"]
        values: Values = {
            "conversation_id": row.conversation_id,
            "kernel_id": row.kernel_id,
            "model": row.model,
            "status": _status(pending, views[row.number]),
            "created_at": row.created_at,
            "messages": messages[row.number],
            "tool_calls": own,
            "last_seq": last_seq,
            "runs": views[row.number],
        }
        found.append((values, pending))
    return found


def _status(pending: Sequence[Values], views: Sequence[Values]) -> str:
    """By the rows alone, so that it never says other than the runs beside it."""
    if pending:
        return "awaiting_approval"
    return "running" if any(run["status"] in _OPEN for run in views) else "idle"


def _offered(call: Values) -> Values:
    """A waiting call together with what Always allow offers for it."""
    if call["state"] != "awaiting_approval":
        return call
    return with_offers(ToolCallView.model_validate_json(orjson.dumps(call))).model_dump()
