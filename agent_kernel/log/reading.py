"""Messages, calls and runs as they are told to faces, made of their rows for many conversations at once.

The values have the shape of the protocol's views, but are not validated: what the log holds was, when it was written,
and to do it again at every look took longer than to read it. Texts that are JSON already are not read at all.
"""

import sqlite3
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

import orjson

from agent_kernel.log.blocks import Text
from agent_kernel.log.bodies import unpack
from agent_kernel.log.journal import MESSAGE, message_body, message_values
from agent_kernel.log.runs import CONVERSATION, ConversationRow
from agent_kernel.protocol.views import ToolCallView

Values = dict[str, Any]
Span = tuple[int, int]
"""The numbers of the first and the last conversation."""

_NOT_STORED = {"outputs", "scopes", "rules"}
_OTHER_NAMES = {"by": "decided_via", "conversation_id": "conversations.conversation_id"}
_CALL_FIELDS = [name for name in ToolCallView.model_fields if name not in _NOT_STORED]
_CALL_COLUMNS = ", ".join(_OTHER_NAMES.get(name, f"tool_calls.{name}") for name in _CALL_FIELDS)
_FLAGS = ("edited", "recorded", "read_only", "truncated")


def list_rows(sql: sqlite3.Connection, after: int, limit: int) -> list[tuple[ConversationRow, int]]:
    """Conversations after a number, each with its last `seq`."""
    rows = sql.execute(
        f"SELECT {CONVERSATION}, (SELECT max(seq) FROM events WHERE conversation = conversations.number) "
        "FROM conversations WHERE number > ? ORDER BY number LIMIT ?",
        (after, limit),
    )
    return [(ConversationRow(*row), last or 0) for *row, last in rows]


@dataclass(frozen=True, slots=True)
class Said:
    """What was said in a conversation."""

    messages: list[Values] = field(default_factory=list)
    """In order."""
    texts: dict[int, Text] = field(default_factory=dict)
    """By position, for `journal.output_values`."""


def messages(sql: sqlite3.Connection, span: Span) -> dict[int, Said]:
    """What was said in each conversation."""
    found: dict[int, Said] = defaultdict(Said)
    rows = sql.execute(
        f"SELECT messages.conversation, position, message_id, messages.run_id, {MESSAGE} "
        "WHERE messages.conversation BETWEEN ? AND ? ORDER BY messages.conversation, position",
        span,
    )
    for conversation, position, message_id, run_id, *stored in rows:
        said = found[conversation]
        body, said.texts[position] = message_body(*stored)
        said.messages.append(message_values(message_id, run_id, body))
    return found


def calls(sql: sqlite3.Connection, span: Span) -> dict[int, list[Values]]:
    """Those of each conversation, in the order in which they were proposed; without outputs and offers."""
    found: dict[int, list[Values]] = defaultdict(list)
    rows = sql.execute(
        f"SELECT conversation, {_CALL_COLUMNS} FROM tool_calls JOIN conversations "
        "ON conversations.number = conversation WHERE conversation BETWEEN ? AND ? ORDER BY tool_calls.number",
        span,
    )
    for conversation, *row in rows:
        values = dict(zip(_CALL_FIELDS, row, strict=True))
        for name in _FLAGS:
            values[name] = bool(values[name])
        values["result"] = values["result"] and unpack(values["result"])
        values["warnings"] = orjson.Fragment(values["warnings"])
        values["preview"] = values["preview"] and orjson.Fragment(values["preview"])
        found[conversation].append({**values, "outputs": [], "scopes": [], "rules": []})
    return found


def runs(sql: sqlite3.Connection, span: Span) -> dict[int, list[orjson.Fragment]]:
    """Those of each conversation, in order."""
    found: dict[int, list[orjson.Fragment]] = defaultdict(list)
    rows = sql.execute(
        "SELECT conversation, view FROM runs WHERE conversation BETWEEN ? AND ? ORDER BY conversation, number", span
    )
    for conversation, view in rows:
        found[conversation].append(orjson.Fragment(unpack(view)))
    return found
