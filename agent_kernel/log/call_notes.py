"""What is noted on a call beside its state. None of it changes whether, or what, the call runs."""

import sqlite3
from collections.abc import Sequence

from agent_kernel.log.bodies import pack
from agent_kernel.log.call_rows import dump_warnings
from agent_kernel.protocol.views import Preview, Warning
from agent_kernel.protocol.vocabulary import UnknownAnswer


def set_card(
    sql: sqlite3.Connection,
    conversation: int,
    tool_call_id: str,
    preview: Preview | None,
    warnings: Sequence[Warning],
) -> None:
    """What the card of a call shows in place of its arguments, and what it warns of."""
    sql.execute(
        "UPDATE tool_calls SET preview = ?, warnings = ? WHERE conversation = ? AND tool_call_id = ?",
        (preview and pack(preview.model_dump_json()), dump_warnings(warnings), conversation, tool_call_id),
    )


def set_waiting(sql: sqlite3.Connection, conversation: int, tool_call_id: str, cell: int | None) -> None:
    """The user's own cell that the kernel runs before a call that is executing."""
    sql.execute(
        "UPDATE tool_calls SET waiting_behind = ? WHERE conversation = ? AND tool_call_id = ?",
        (cell, conversation, tool_call_id),
    )


def set_undone(sql: sqlite3.Connection, conversation: int, tool_call_id: str) -> None:
    """What the call wrote was taken back."""
    sql.execute(
        "UPDATE tool_calls SET undone = 1 WHERE conversation = ? AND tool_call_id = ?", (conversation, tool_call_id)
    )


def answer_unknown(sql: sqlite3.Connection, conversation: int, tool_call_id: str, answer: UnknownAnswer) -> bool:
    """What a person wants done about a call whose outcome is unknown. False where that was said before."""
    updated = sql.execute(
        "UPDATE tool_calls SET unknown_answer = ? "
        "WHERE conversation = ? AND tool_call_id = ? AND state = 'unknown' AND unknown_answer IS NULL",
        (answer, conversation, tool_call_id),
    ).rowcount
    return updated == 1
