"""Builds the messages of a request to Chat Completions, from conversations in any state, in the form that the service
takes: known by its address or learned from what it refused.

Services and gateways refuse an empty text (Bedrock's, Databricks'), a message without the key `content`, fields that
they do not know (Groq, Mistral), calls without the reasoning that led to them (DeepSeek), and ids that are not like
their own (Mistral).
"""

import hashlib
import re
from collections.abc import Collection
from string import ascii_letters, digits
from typing import Any
from urllib.parse import urlsplit

from agent_kernel.models.base import IMAGES, PROVIDER, ModelRequest, WireMessage, text_of
from agent_kernel.models.images import SHOWN_BY, absent_line, data_url
from agent_kernel.models.provider_items import CallItem, OpaqueItem, readable_items

Part = dict[str, Any]
"""A part of a message's content."""

SHORT_IDS = "the ids of calls have nine letters and digits, which every service takes"
ANSWERS_END_STEPS = "an answer stands between the results of calls and what the user says next"
EMPTY_REASONING = "each answer with calls has `reasoning_content`, an empty one if it is of another model"
"""Forms of messages that some services ask for."""
NO_OUTPUT = "(no output)"
"""In place of an empty result."""
_GOES_ON = "(The user goes on.)"
_SHORT_ID = 9
_SIGNS = digits + ascii_letters
_SHORT = re.compile(rf"[a-zA-Z0-9]{{{_SHORT_ID}}}")
_MISTRAL = ".mistral.ai"


def forms_at(where: str) -> set[str]:
    """The forms for which an address is known."""
    return {SHORT_IDS, ANSWERS_END_STEPS} if f".{urlsplit(where).hostname or ''}".endswith(_MISTRAL) else set()


def build_messages(request: ModelRequest, origin: str, forms: Collection[str]) -> list[WireMessage]:
    """The messages as this API takes them, and in the `forms` that this service asks for. Tool messages can't have
    pictures here, so the pictures of a step's calls follow its tool messages as a message of the user."""
    ids = _CallIds(short=SHORT_IDS in forms)
    built: list[WireMessage] = []
    shown: list[Part] = []
    for message in request.messages:
        if not (forms or ids.differ or shown) and (plain := _plain(message)) is not None:
            built.append(plain)
            continue
        role, text = message["role"], text_of(message)
        pictures = [_picture(ref, request) for ref in message.get(IMAGES, ())]
        if role == "tool":
            own = ids.of(message["tool_call_id"])
            built.append({"role": "tool", "tool_call_id": own, "content": text if text.strip() else NO_OUTPUT})
            shown += [_text(SHOWN_BY.format(own)), *pictures] if pictures else []
            continue
        if shown:
            built.append({"role": "user", "content": shown})
            shown = []
        if role == "assistant":
            built += _answer(message, origin, forms, ids)
        elif pictures:
            built.append({"role": role, "content": [*([_text(text)] if text.strip() else []), *pictures]})
        elif text.strip():
            built.append({"role": role, "content": text})
    if shown:
        built.append({"role": "user", "content": shown})
    return _with_ended_steps(built) if ANSWERS_END_STEPS in forms else built


def _plain(message: WireMessage) -> WireMessage | None:
    """The message where every service takes it as it is kept: nearly each of a long conversation."""
    if IMAGES in message or PROVIDER in message:
        return None
    content = message.get("content")
    if isinstance(content, str) and content.strip():
        return message
    return message | {"content": None} if message.get("tool_calls") and not text_of(message).strip() else None


def _with_ended_steps(messages: list[WireMessage]) -> list[WireMessage]:
    ended: list[WireMessage] = []
    for message in messages:
        if ended and ended[-1]["role"] == "tool" and message["role"] == "user":
            ended.append({"role": "assistant", "content": _GOES_ON})
        ended.append(message)
    return ended


def _answer(message: WireMessage, origin: str, forms: Collection[str], ids: "_CallIds") -> list[WireMessage]:
    """An answer with what this origin wants back with it; nothing where nothing was said or asked for. Without a text
    its content is null, because some services refuse an empty one, and others that it is missing."""
    text, calls = text_of(message), message.get("tool_calls") or []
    if not calls and not text.strip():
        return []
    answer: WireMessage = {"role": "assistant", "content": text if text.strip() else None}
    frames: dict[int, dict[str, Any]] = {}
    for item in readable_items(message, "chat", origin) or ():
        if isinstance(item, OpaqueItem):
            answer |= item.item
        elif isinstance(item, CallItem):
            frames[item.index] = item.frame or {}
    if calls:
        answer["tool_calls"] = [_call(call, frames.get(at, {}), ids) for at, call in enumerate(calls)]
        if EMPTY_REASONING in forms:
            answer.setdefault("reasoning_content", "")
    return [answer]


def _call(call: dict[str, Any], frame: dict[str, Any], ids: "_CallIds") -> dict[str, Any]:
    own = ids.of(call["id"], frame.get("id"))
    return {**call, **frame, "id": own} if frame or own != call["id"] else call


class _CallIds:
    """The ids that one request has for the calls of a conversation: the same in each request, and different for
    different calls."""

    def __init__(self, *, short: bool) -> None:
        self.differ = short
        """Whether one may be another than the conversation has."""
        self._short = short
        self._ids: dict[str, str] = {}
        self._used: set[str] = set()

    def of(self, call_id: str, given: str | None = None) -> str:
        """`given` is the id that the service itself gave to the call, where it has to be that one."""
        if call_id not in self._ids:
            own = self._ids[call_id] = self._short_id(call_id) if self._short else given or call_id
            self._used.add(own)
            self.differ = self.differ or own != call_id
        return self._ids[call_id]

    def _short_id(self, call_id: str) -> str:
        found, tries = call_id, 0
        while not _SHORT.fullmatch(found) or found in self._used:
            found, tries = _hashed(f"{tries} {call_id}"), tries + 1
        return found


def _hashed(text: str) -> str:
    number = int.from_bytes(hashlib.sha256(text.encode("utf-8", "replace")).digest()[:8])
    return "".join(_SIGNS[number // len(_SIGNS) ** place % len(_SIGNS)] for place in range(_SHORT_ID))


def _picture(ref: dict[str, Any], request: ModelRequest) -> Part:
    url = data_url(ref, request.images)
    return {"type": "image_url", "image_url": {"url": url}} if url is not None else _text(absent_line(ref))


def _text(text: str) -> Part:
    return {"type": "text", "text": text}
