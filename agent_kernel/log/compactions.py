"""Rows that say how conversations were shortened for their models. Messages stay as they are; the newest row counts."""

import sqlite3
from typing import Any

import orjson

from agent_kernel.log.packing import pack, unpack


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
