"""Messages that came while a run was busy, stored until the run takes them, so that a crash loses none."""

import sqlite3
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class KeptMessage:
    number: int
    content: str


def keep(sql: sqlite3.Connection, conversation: int, run_id: str, content: str) -> KeptMessage:
    number = sql.execute(
        "INSERT INTO inbox (conversation, run_id, content) VALUES (?, ?, ?)", (conversation, run_id, content)
    ).lastrowid
    assert number is not None
    return KeptMessage(number, content)


def read_kept(sql: sqlite3.Connection, conversation: int, run_id: str) -> list[KeptMessage]:
    """The messages that a run has not taken yet, in the order in which they came."""
    rows = sql.execute(
        "SELECT number, content FROM inbox WHERE conversation = ? AND run_id = ? ORDER BY number",
        (conversation, run_id),
    )
    return [KeptMessage(number, content) for number, content in rows]


def drop(sql: sqlite3.Connection, message: KeptMessage) -> None:
    sql.execute("DELETE FROM inbox WHERE number = ?", (message.number,))
