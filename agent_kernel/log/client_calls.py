"""Agents outside, and the calls that they asked for, as rows. Each call has a run of its own."""

import sqlite3

from agent_kernel.log.runs import CONVERSATION, ConversationRow, read_run
from agent_kernel.protocol.events import utc_now


def conversations_of(
    sql: sqlite3.Connection, client: str, user: str | None, notebook_path: str | None, kernel_id: str | None
) -> list[ConversationRow]:
    """The conversations of a client in a notebook, or else in a kernel that has none; its home is the first."""
    rows = sql.execute(
        f"SELECT {CONVERSATION} FROM conversations WHERE client_home IS NOT NULL "
        "AND client = ? AND client_user IS ? AND notebook_path IS ? AND kernel_id IS ? ORDER BY number",
        (client, user, notebook_path, kernel_id),
    )
    return [ConversationRow(*row) for row in rows]


def conversations_at(sql: sqlite3.Connection, home: str) -> list[ConversationRow]:
    """The conversations that share this home."""
    rows = sql.execute(f"SELECT {CONVERSATION} FROM conversations WHERE client_home = ? ORDER BY number", (home,))
    return [ConversationRow(*row) for row in rows]


def homes(sql: sqlite3.Connection) -> list[ConversationRow]:
    """The first conversation of each client in each notebook, the oldest first."""
    rows = sql.execute(f"SELECT {CONVERSATION} FROM conversations WHERE client_home = conversation_id ORDER BY number")
    return [ConversationRow(*row) for row in rows]


def add(sql: sqlite3.Connection, run_id: str, home: str, tool_name: str, digest: str) -> None:
    sql.execute("INSERT INTO client_calls VALUES (?, ?, ?, ?, NULL)", (run_id, home, tool_name, digest))


def undelivered(sql: sqlite3.Connection, home: str, tool_name: str, digest: str) -> str | None:
    """The run of a client's last call like this one whose result it was never sent."""
    row = sql.execute(
        "SELECT run_id FROM client_calls JOIN runs USING (run_id) "
        "WHERE home = ? AND digest = ? AND tool_name = ? AND delivered_at IS NULL ORDER BY number DESC LIMIT 1",
        (home, digest, tool_name),
    ).fetchone()
    return row[0] if row is not None else None


def note_delivery(sql: sqlite3.Connection, run_id: str) -> None:
    sql.execute(
        "UPDATE client_calls SET delivered_at = ? WHERE run_id = ? AND delivered_at IS NULL", (utc_now(), run_id)
    )


def waiting(sql: sqlite3.Connection, home: str) -> int:
    """How many calls of a client in a notebook wait for a person."""
    (count,) = sql.execute(
        "SELECT count(*) FROM tool_calls JOIN conversations ON conversation = conversations.number "
        "WHERE state = 'awaiting_approval' AND client_home = ?",
        (home,),
    ).fetchone()
    return int(count)


def last_asked(sql: sqlite3.Connection, home: str) -> str | None:
    """When the newest call of a client in a notebook was asked for."""
    row = sql.execute(
        "SELECT run_id FROM client_calls JOIN runs USING (run_id) WHERE home = ? ORDER BY number DESC LIMIT 1",
        (home,),
    ).fetchone()
    return read_run(sql, row[0]).started_at if row is not None else None
