"""Conversations as clients and HTTP get them, read from the log."""

import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from agent_kernel.approvals.offers import with_offers
from agent_kernel.log import event_rows, message_rows, runs, tool_calls
from agent_kernel.log.runs import ConversationRow
from agent_kernel.protocol.events import SessionEvent
from agent_kernel.protocol.views import ConversationView, MessageView, ToolView
from agent_kernel.protocol.vocabulary import RunStatus
from agent_kernel.tools.declaration import ToolDeclaration

_OPEN: frozenset[RunStatus] = frozenset({"queued", "running"})
_EVENTS_READ = 20_000
"""Of a conversation with more events, what the model is writing comes when it is whole."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A conversation at one moment."""

    view: ConversationView
    resume_from: int
    """Of the events up to this one none shows what the rest does not."""


def read_snapshot(sql: sqlite3.Connection, conversation_id: str) -> Snapshot:
    """The whole conversation, calls with their outputs. Raises `UnknownConversation`."""
    row = runs.read_conversation(sql, conversation_id)
    view = _read(sql, row)
    if view.runs and (last := view.runs[-1]).status == "error":
        view.messages.extend(
            map(MessageView.model_validate, message_rows.cut_off_answers(sql, row.number, last.run_id))
        )
    return Snapshot(view, _resume_from(sql, row.number, view))


def read_list(sql: sqlite3.Connection, *, after: str | None = None, limit: int = -1) -> bytes:
    """A JSON array of conversations, the oldest first: those after one of them, or so many.
    Raises `UnknownConversation`."""
    first = runs.read_conversation(sql, after).number if after is not None else 0
    return b"[%s]" % b",".join(
        _read(sql, row).model_dump_json().encode() for row in runs.list_conversations(sql, first, limit)
    )


def tool_views(declared: Iterable[ToolDeclaration]) -> list[ToolView]:
    return [
        ToolView(name=tool.name, description=tool.description, parameters=tool.parameters, approval=tool.approval)
        for tool in declared
    ]


def session_frame(snapshot: Snapshot, tools: Sequence[ToolView], command_id: str | None = None) -> bytes:
    """The `session` event with a snapshot; `command_id` is that of the `resume` that has led to it."""
    view = snapshot.view
    event = SessionEvent(
        seq=view.last_seq,
        conversation_id=view.conversation_id,
        command_id=command_id,
        tools=list(tools),
        snapshot=view,
        pending=[call for call in view.tool_calls if call.state == "awaiting_approval"],
        last_seq=view.last_seq,
        resume_from=snapshot.resume_from,
    )
    return event.model_dump_json().encode()


def _resume_from(sql: sqlite3.Connection, conversation: int, view: ConversationView) -> int:
    last = view.last_seq
    open_runs = {run.run_id for run in view.runs if run.status in _OPEN}
    if not open_runs or last > _EVENTS_READ:
        return last
    known = {call.tool_call_id for call in view.tool_calls}
    first = event_rows.shown_only_by_events(sql, conversation, open_runs, known)
    return last if first is None else first - 1


def _read(sql: sqlite3.Connection, row: ConversationRow) -> ConversationView:
    outputs = event_rows.outputs_by_call(sql, row.number)
    calls = [
        with_offers(call).model_copy(update={"outputs": outputs.get(call.tool_call_id, [])})
        for call in tool_calls.list_calls(sql, conversation=row.number)
    ]
    its_runs = runs.list_runs(sql, row.number)
    waits = any(call.state == "awaiting_approval" for call in calls)
    # By the rows alone, so that it agrees with the runs beside it.
    goes = any(run.status in _OPEN for run in its_runs)
    return ConversationView(
        conversation_id=row.conversation_id,
        kernel_id=row.kernel_id,
        model=row.model,
        status="awaiting_approval" if waits else "running" if goes else "idle",
        created_at=row.created_at,
        messages=message_rows.message_views(sql, row.number, event_rows.START),
        tool_calls=calls,
        last_seq=event_rows.last_seq(sql, row.number),
        runs=its_runs,
    )
