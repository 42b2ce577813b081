"""The conversation as the model gets it: plain dicts, read from the log once a run and then kept."""

import sqlite3
from typing import Any

from agent_kernel.log.journal import read_messages
from agent_kernel.loop.prompts import with_context
from agent_kernel.models.base import WireMessage


def wire_message(body: dict[str, Any]) -> WireMessage:
    """A logged message as the model gets it."""
    match body["role"]:
        case "user":
            return {"role": "user", "content": with_context(body["content"], body.get("environment", ""))}
        case "assistant":
            return {name: body[name] for name in ("role", "content", "tool_calls") if name in body}
        case _:
            return body


def read_history(sql: sqlite3.Connection, conversation: int) -> list[WireMessage]:
    return [wire_message(body) for _, _, body in read_messages(sql, conversation)]
