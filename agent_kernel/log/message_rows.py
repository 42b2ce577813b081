"""Messages of conversations, append-only, with how they were shortened; and the inbox: messages that came while a run
was busy, until the run takes them, so that a crash loses none."""

import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import orjson

from agent_kernel.log.event_rows import START, Position, read_events, unfinished_messages
from agent_kernel.log.packing import pack, unpack
from agent_kernel.protocol.views import ImageRefs, MessageView

MESSAGE = (
    "message_id, messages.run_id, body, tool_call_id, result, images "
    "FROM messages LEFT JOIN tool_calls ON tool_calls.number = body"
)
"""The id of a message, that of its run, and the columns that `message_body` takes."""


def append_message(
    sql: sqlite3.Connection, conversation: int, message_id: str, run_id: str, body: dict[str, Any]
) -> None:
    """Append a message in the log's form: the wire message, and beside it what only a person sees. A tool message whose
    text is its call's result is stored as the number of that call."""
    number = _call_with_result(sql, conversation, body) if body["role"] == "tool" else None
    stored = pack(orjson.dumps(body).decode()) if number is None else number
    sql.execute(
        "INSERT INTO messages "
        "SELECT ?1, coalesce(max(position), 0) + 1, ?2, ?3, ?4 FROM messages WHERE conversation = ?1",
        (conversation, message_id, run_id, stored),
    )


def _call_with_result(sql: sqlite3.Connection, conversation: int, body: dict[str, Any]) -> int | None:
    """The number of the call that a tool message answers, if the call's row says all that the message says."""
    row = sql.execute(
        "SELECT number, result, images FROM tool_calls WHERE conversation = ? AND tool_call_id = ?",
        (conversation, body["tool_call_id"]),
    ).fetchone()
    if row is None or row[1] is None or unpack(row[1]) != body["content"]:
        return None
    return row[0] if body.get("images") == (row[2] and orjson.loads(row[2])) else None


def read_messages(
    sql: sqlite3.Connection, conversation: int, after: Position = START
) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """(message_id, run_id, body) of every message, in order."""
    rows = sql.execute(
        f"SELECT {MESSAGE} WHERE messages.conversation = ? AND position > ? ORDER BY position",
        (conversation, after.position),
    )
    for message_id, run_id, *stored in rows:
        yield message_id, run_id, message_body(*stored)


def message_body(
    stored: int | str | bytes, tool_call_id: str | None, result: str | bytes | None, images: str | None
) -> dict[str, Any]:
    """A message in the log's form, made of a row with the columns `MESSAGE`. Raises `Unreadable`."""
    body: dict[str, Any]
    if isinstance(stored, int):
        assert result is not None
        body = {"role": "tool", "tool_call_id": tool_call_id, "content": unpack(result)}
        return body if images is None else body | {"images": orjson.loads(images)}
    body = orjson.loads(unpack(stored))
    return body


def prompt_images(sql: sqlite3.Connection, conversation: int, message_id: str | None = None) -> dict[str, ImageRefs]:
    """References to the pictures in messages of the user, by their ids: in all, or in one."""
    rows = sql.execute(
        f"SELECT {MESSAGE} WHERE messages.conversation = ? AND typeof(body) != 'integer' "
        "AND coalesce(messages.message_id = ?, 1) ORDER BY position",
        (conversation, message_id),
    )
    found: dict[str, ImageRefs] = {}
    for one, _, *stored in rows:
        body = message_body(*stored)
        if body["role"] == "user" and body.get("images"):
            found[one] = body["images"]
    return found


def seq_before_run(sql: sqlite3.Connection, conversation: int, message_id: str | None) -> int:
    """The `seq` before the prompt of the run that a message belongs to; of the newest run where there is no such
    message."""
    row = sql.execute(
        "SELECT run_id FROM messages WHERE conversation = ? AND message_id = ?", (conversation, message_id)
    ).fetchone()
    run_id = row[0] if row is not None else last_run(sql, conversation)
    said = read_events(sql, conversation, ("message",), [run_id]) if run_id is not None else ()
    return next((seq - 1 for seq, event in said if event["role"] == "user"), 0)


def has_prompt(sql: sqlite3.Connection, conversation: int, run_id: str) -> bool:
    """Whether the prompt of a run has been written."""
    row = sql.execute(
        "SELECT 1 FROM messages WHERE conversation = ? AND run_id = ? LIMIT 1", (conversation, run_id)
    ).fetchone()
    return row is not None


def last_run(sql: sqlite3.Connection, conversation: int) -> str | None:
    """The id of the run of the last message."""
    row = sql.execute(
        "SELECT run_id FROM messages WHERE conversation = ? ORDER BY position DESC LIMIT 1", (conversation,)
    ).fetchone()
    return row[0] if row is not None else None


def _message_view(message_id: str, run_id: str, body: dict[str, Any]) -> MessageView:
    """Of a message in the log's form."""
    return MessageView(
        message_id=message_id,
        run_id=run_id,
        role=body["role"],
        content=body.get("content") or "",
        tool_calls=[call["id"] for call in body.get("tool_calls", ())],
        tool_call_id=body.get("tool_call_id"),
        reasoning=body.get("reasoning", ""),
    )


def message_views(sql: sqlite3.Connection, conversation: int, after: Position) -> list[MessageView]:
    """The messages of a conversation, in order."""
    return [_message_view(*one) for one in read_messages(sql, conversation, after)]


def add_compaction(sql: sqlite3.Connection, conversation: int, body: dict[str, Any]) -> None:
    sql.execute(
        "INSERT INTO compactions (conversation, body) VALUES (?, ?)", (conversation, pack(orjson.dumps(body).decode()))
    )


def last_compaction(sql: sqlite3.Connection, conversation: int) -> dict[str, Any] | None:
    row = sql.execute(
        "SELECT body FROM compactions WHERE conversation = ? ORDER BY number DESC LIMIT 1", (conversation,)
    ).fetchone()
    if row is None:
        return None
    body: dict[str, Any] = orjson.loads(unpack(row[0]))
    return body


def cut_off_answers(
    sql: sqlite3.Connection, conversation: int, run_id: str, after: Position = START
) -> list[MessageView]:
    """What was shown of answers that never became whole."""
    return [
        _message_view(message_id, run_id, {"role": "assistant", "content": text})
        for message_id, text in unfinished_messages(sql, conversation, run_id, after).items()
        if text.strip()
    ]


@dataclass(frozen=True, slots=True)
class KeptMessage:
    number: int
    content: str
    message_id: str | None = None
    """The id that it will have, where a client has given it one."""
    images: ImageRefs = field(default_factory=list)
    """The pictures that were sent with it."""


def keep(
    sql: sqlite3.Connection,
    conversation: int,
    run_id: str,
    content: str,
    message_id: str | None = None,
    images: ImageRefs | None = None,
) -> KeptMessage:
    stored = orjson.dumps(images).decode() if images else None
    number = sql.execute(
        "INSERT INTO inbox (conversation, run_id, content, message_id, images) VALUES (?, ?, ?, ?, ?)",
        (conversation, run_id, content, message_id, stored),
    ).lastrowid
    assert number is not None
    return KeptMessage(number, content, message_id, images or [])


def read_kept(sql: sqlite3.Connection, conversation: int, run_id: str) -> list[KeptMessage]:
    """The messages that a run has not taken yet, in the order in which they came."""
    rows = sql.execute(
        "SELECT number, content, message_id, images FROM inbox WHERE conversation = ? AND run_id = ? ORDER BY number",
        (conversation, run_id),
    )
    return [
        KeptMessage(number, content, message_id, orjson.loads(images) if images is not None else [])
        for number, content, message_id, images in rows
    ]


def drop(sql: sqlite3.Connection, message: KeptMessage) -> None:
    sql.execute("DELETE FROM inbox WHERE number = ?", (message.number,))
