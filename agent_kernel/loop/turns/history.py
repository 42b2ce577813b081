"""The conversation as the model gets it: plain dicts, kept from run to run so that only what is new is read."""

import sqlite3
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Any

from agent_kernel.log.compactions import last_compaction
from agent_kernel.log.journal import START, Mark, read_messages
from agent_kernel.loop.turns.compaction import Compaction
from agent_kernel.loop.turns.prompts import with_context
from agent_kernel.loop.turns.window import Window
from agent_kernel.models.base import IMAGES, WireMessage

_KEPT = 32
_KEPT_MESSAGES = 20_000
"""Conversations whose history is kept in memory, and their messages in all; others are read again when they go on."""


@dataclass(frozen=True, slots=True)
class Past:
    """What was said up to a place in the log."""

    messages: list[WireMessage] = field(default_factory=list)
    upto: Mark = START
    window: Window = field(default_factory=Window)


class Histories:
    """The pasts of the conversations that were last active."""

    def __init__(self) -> None:
        self._pasts: OrderedDict[int, Past] = OrderedDict()

    def take(self, conversation: int) -> Past:
        """The past of a conversation, for its next run; it is given away, because that run adds to it."""
        return self._pasts.pop(conversation, Past())

    def keep(self, conversation: int, past: Past) -> None:
        self._pasts[conversation] = past
        while len(self._pasts) > _KEPT or (len(self._pasts) > 1 and self._messages() > _KEPT_MESSAGES):
            self._pasts.popitem(last=False)

    def _messages(self) -> int:
        return sum(len(past.messages) for past in self._pasts.values())


def wire_message(body: dict[str, Any]) -> WireMessage:
    """A logged message as the model gets it."""
    match body["role"]:
        case "user":
            wire = {"role": "user", "content": with_context(body["content"], body.get("environment", ""))}
            return wire | {IMAGES: body[IMAGES]} if body.get(IMAGES) else wire
        case "assistant":
            return {name: body[name] for name in ("role", "content", "tool_calls", "provider") if name in body}
        case _:
            return body


def read_history(sql: sqlite3.Connection, conversation: int, past: Past) -> list[WireMessage]:
    """The past, and what was said since."""
    since = [wire_message(body) for _, _, body in read_messages(sql, conversation, past.upto)]
    return [*past.messages, *since]


def read_window(sql: sqlite3.Connection, conversation: int) -> Window:
    """What the model gets of a conversation of which nothing is in memory."""
    found = last_compaction(sql, conversation)
    return Window() if found is None else Window(Compaction(**found))


def unanswered_calls(sql: sqlite3.Connection, conversation: int) -> list[str]:
    """Calls that an assistant message asked for and that no tool message answers, in the model's order."""
    asked: dict[str, None] = {}
    for _, _, body in read_messages(sql, conversation):
        for call in body.get("tool_calls", ()):
            asked[call["id"]] = None
        asked.pop(body.get("tool_call_id", ""), None)
    return list(asked)
