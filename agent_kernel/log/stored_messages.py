"""Messages that came while a run was busy, stored until the run takes them, so that a crash loses none."""

import sqlite3
from dataclasses import dataclass, field

import orjson

from agent_kernel.protocol.views import ImageRefs


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
