"""Messages, tool calls, outputs and runs of many conversations at once, as clients get them.

The values have the shape of the protocol's views, but are not validated: they were when they were written, and to
validate them again took longer than to read them.
"""

import sqlite3
from collections import defaultdict
from typing import Any

from agent_kernel.log.events import HAS_OUTPUTS, MESSAGE, events_of, message_body, message_values, outputs_of
from agent_kernel.log.runs import CONVERSATION, RUN, ConversationRow, run_values
from agent_kernel.log.tool_calls import CALL, call_values
from agent_kernel.protocol.views import ToolCallView

Values = dict[str, Any]
Span = tuple[int, int]
"""The numbers of the first and the last conversation."""

_OF_CALLS = {
    name: field.get_default(call_default_factory=True)
    for name, field in ToolCallView.model_fields.items()
    if not field.is_required()
}


def list_rows(sql: sqlite3.Connection, after: int, limit: int) -> list[tuple[ConversationRow, int]]:
    """Conversations after a number, each with its last `seq`."""
    rows = sql.execute(
        f"SELECT {CONVERSATION}, (SELECT max(seq) FROM events WHERE conversation = conversations.number) "
        "FROM conversations WHERE number > ? ORDER BY number LIMIT ?",
        (after, limit),
    )
    return [(ConversationRow(*row), last or 0) for *row, last in rows]


def messages(sql: sqlite3.Connection, span: Span) -> dict[int, list[Values]]:
    """The messages of each conversation, in order."""
    found: dict[int, list[Values]] = defaultdict(list)
    rows = sql.execute(
        f"SELECT messages.conversation, {MESSAGE} "
        "WHERE messages.conversation BETWEEN ? AND ? ORDER BY messages.conversation, position",
        span,
    )
    for conversation, message_id, run_id, *stored in rows:
        found[conversation].append(message_values(message_id, run_id, message_body(*stored)))
    return found


def calls(sql: sqlite3.Connection, span: Span) -> dict[int, list[Values]]:
    """The tool calls of each conversation, in the order in which they were proposed; without outputs and offers."""
    found: dict[int, list[Values]] = defaultdict(list)
    rows = sql.execute(
        f"SELECT conversation, {CALL} FROM tool_calls WHERE conversation BETWEEN ? AND ? ORDER BY number", span
    )
    for conversation, *row in rows:
        found[conversation].append(_OF_CALLS | call_values(row))
    return found


def outputs(sql: sqlite3.Connection, span: Span) -> dict[int, dict[str, list[Values]]]:
    """The live outputs of each conversation, by call, in order."""
    found: dict[int, dict[str, list[Values]]] = defaultdict(lambda: defaultdict(list))
    rows = sql.execute(
        f"SELECT conversation, seq, body FROM events WHERE conversation BETWEEN ? AND ? AND {HAS_OUTPUTS} "
        "ORDER BY conversation, seq",
        span,
    )
    for conversation, seq, body in rows:
        for _, event in outputs_of(events_of((seq, body))):
            found[conversation][event["tool_call_id"]].append(event["output"])
    return found


def runs(sql: sqlite3.Connection, span: Span) -> dict[int, list[Values]]:
    """The runs of each conversation, in order."""
    found: dict[int, list[Values]] = defaultdict(list)
    rows = sql.execute(
        f"SELECT conversation, {RUN} FROM runs WHERE conversation BETWEEN ? AND ? ORDER BY conversation, number", span
    )
    for conversation, *row in rows:
        found[conversation].append(run_values(*row))
    return found
