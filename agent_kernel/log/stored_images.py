"""Pictures that models are given: each is stored once, by its SHA-256, for all conversations that refer to it."""

import base64
import sqlite3
from collections.abc import Collection, Mapping

import orjson

from agent_kernel.protocol.views import ImageRefs


def keep(sql: sqlite3.Connection, conversation: int, images: Mapping[str, bytes]) -> None:
    """Store pictures, by their digest, for a conversation."""
    sql.executemany("INSERT OR IGNORE INTO images VALUES (?, ?)", images.items())
    sql.executemany(
        "INSERT OR IGNORE INTO images_of_conversations VALUES (?, ?)", [(conversation, digest) for digest in images]
    )


def read(sql: sqlite3.Connection, conversation: int, digests: Collection[str]) -> dict[str, str]:
    """Pictures of a conversation in base64, by digest. Those that the log does not have are left out."""
    marks = ", ".join("?" * len(digests))
    rows = sql.execute(
        "SELECT digest, data FROM images JOIN images_of_conversations USING (digest) "
        f"WHERE conversation = ? AND digest IN ({marks})",
        (conversation, *digests),
    )
    return {digest: base64.b64encode(data).decode() for digest, data in rows}


def shown_by(sql: sqlite3.Connection, conversation: int, tool_call_ids: Collection[str]) -> dict[str, ImageRefs]:
    """References to the pictures that calls showed, by call; calls without pictures are left out."""
    marks = ", ".join("?" * len(tool_call_ids))
    rows = sql.execute(
        "SELECT tool_call_id, images FROM tool_calls "
        f"WHERE conversation = ? AND images IS NOT NULL AND tool_call_id IN ({marks})",
        (conversation, *tool_call_ids),
    )
    return {tool_call_id: orjson.loads(images) for tool_call_id, images in rows}


def note_seen(sql: sqlite3.Connection, conversation: int, tool_call_id: str, count: int) -> str | None:
    """Note that a model was given `count` pictures of a call. Returns the id of the call's run, or `None` if it was
    noted before."""
    row = sql.execute(
        "UPDATE tool_calls SET seen_images = ? "
        "WHERE conversation = ? AND tool_call_id = ? AND seen_images = 0 RETURNING run_id",
        (count, conversation, tool_call_id),
    ).fetchall()
    return row[0][0] if row else None
