"""Pictures that models are given: each once, by its SHA-256, for the conversations that refer to it."""

import base64
import sqlite3
from collections.abc import Collection, Mapping

import orjson

from agent_kernel.protocol.views import ImageRefs


def keep(sql: sqlite3.Connection, conversation: int, images: Mapping[str, bytes]) -> None:
    """Keep pictures, by their digest, for a conversation. One that the log has is not written again."""
    sql.executemany("INSERT OR IGNORE INTO images VALUES (?, ?)", images.items())
    sql.executemany(
        "INSERT OR IGNORE INTO images_of_conversations VALUES (?, ?)", [(conversation, digest) for digest in images]
    )


def read(sql: sqlite3.Connection, conversation: int, digests: Collection[str]) -> dict[str, str]:
    """Pictures of a conversation in base64, as far as the log has them."""
    marks = ", ".join("?" * len(digests))
    rows = sql.execute(
        "SELECT digest, data FROM images JOIN images_of_conversations USING (digest) "
        f"WHERE conversation = ? AND digest IN ({marks})",
        (conversation, *digests),
    )
    return {digest: base64.b64encode(data).decode() for digest, data in rows}


def shown_by(sql: sqlite3.Connection, conversation: int, tool_call_ids: Collection[str]) -> dict[str, ImageRefs]:
    """What calls showed, for those that showed pictures."""
    marks = ", ".join("?" * len(tool_call_ids))
    rows = sql.execute(
        "SELECT tool_call_id, images FROM tool_calls "
        f"WHERE conversation = ? AND images IS NOT NULL AND tool_call_id IN ({marks})",
        (conversation, *tool_call_ids),
    )
    return {tool_call_id: orjson.loads(images) for tool_call_id, images in rows}


def note_seen(sql: sqlite3.Connection, conversation: int, tool_call_id: str, count: int) -> str | None:
    """Note that a model was given so many pictures of a call. The id of the call's run; `None` where that was noted
    before."""
    row = sql.execute(
        "UPDATE tool_calls SET seen_images = ? "
        "WHERE conversation = ? AND tool_call_id = ? AND seen_images = 0 RETURNING run_id",
        (count, conversation, tool_call_id),
    ).fetchall()
    return row[0][0] if row else None
