"""Builds the messages of a request to Chat Completions, from conversations in any state, in the form that the service
takes: known by its address or learned from what it refused.

Services and gateways refuse an empty text (Bedrock's, Databricks'), a message without the key `content`, fields that
they do not know (Groq, Mistral), calls without the reasoning that led to them (DeepSeek), and ids that are not like
their own (Mistral).
"""

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from string import ascii_letters, digits
from typing import Any
from urllib.parse import urlsplit

from agent_kernel.models.base import IMAGES, ModelRequest, WireMessage, text_of
from agent_kernel.models.images import SHOWN_BY, absent_line, data_url
from agent_kernel.models.provider_items import CallItem, OpaqueItem, RefusedItems, TextItem, readable_items
from agent_kernel.models.service_faults import Fault

Part = dict[str, Any]
"""A part of a message's content."""

NO_OUTPUT = "(no output)"
"""In place of an empty result."""
_PLAIN = {"role", "content"}
"""The fields of a message that is sent as it is kept."""
_GOES_ON = "(The user goes on.)"
_SHORT_ID = 9
_SIGNS = digits + ascii_letters
_SHORT = re.compile(rf"[a-zA-Z0-9]{{{_SHORT_ID}}}")
_REFUSALS = frozenset({400, 404, 422, 500})
"""Local servers answer 404 and 500 where a chat template refuses a message."""
_BAD_ID = re.compile(
    r"(?is)tool[ _]?(?:call|use|result)s?(?:\[\d+\])?[ _.]?id.*(?:length|pattern|alphanumeric|too long)"
)
"""Mistral, its chat templates, OpenAI (an id above 40 or 64 characters), Anthropic behind a gateway, and Bedrock."""
_EMPTY: tuple[dict[str, Any], ...] = ({"content": None}, {"content": ""}, {})
"""The forms of an answer with calls and no text, in the order in which they are tried."""
_BAD_EMPTY = (
    re.compile(r"(?is)\bcontent\b(?!\.\d).*\b(?:null|none|nil|string|str)\b|\b(?:null|none|nil)\b.*\bcontent\b"),
    re.compile(
        r"(?is)\bcontent\b(?!\.\d).*\b(?:empty|blank|whitespace|required|missing|least)\b|\bempty\b.*\bcontent\b"
    ),
)
"""What is said of each of them but the last. `content.0` is about something in it."""
_BAD_ORDER = re.compile(r"(?i)unexpected role '?user'? after role '?tool")
_FIELDS = {
    "reasoning_content": re.compile(r"\breasoning_content\b"),
    "reasoning_details": re.compile(r"\breasoning_details\b"),
    "thinking_blocks": re.compile(r"\bthinking_blocks\b"),
    "extra_content": re.compile(r"\bextra_content\b"),
    "reasoning": re.compile(r"['\"`.]reasoning\b"),  # the word alone may be about anything
    "content": re.compile(r"(?is)\bthinking\b|\bcontent\b.{0,200}\bstring\b"),
}
_ASKED_FOR = re.compile(
    r"(?i)missing\W+reasoning_content\b|\breasoning_content\b.{0,40}(?:missing|passed back|required)"
)
"""DeepSeek and Kimi."""
_SIGNED = ("reasoning_details", "thinking_blocks", "extra_content")
_BAD_SIGNATURE = re.compile(
    r"(?i)(?:invalid|corrupted)\W{1,3}(?:thought )?signature|signature.{0,40}(?:invalid|not valid)|blocks? .*modified"
)
_NO_THOUGHTS = "{} no longer accepts what it thought earlier in this conversation, so it was asked without that."
_MISTRAL = ".mistral.ai"


@dataclass(slots=True)
class Dialect:
    short_ids: bool = False
    """Whether the ids of calls have to have nine letters and digits, which every service takes."""
    ends_steps: bool = False
    """Whether an answer has to stand between the results of calls and what the user says next."""
    empty: int = 0
    """The place in `_EMPTY` of the form that it takes."""
    asks_for_reasoning: bool = False
    """Whether each answer with calls has to have `reasoning_content`, also one of another model: an empty one then."""
    left_out: set[str] = field(default_factory=set)
    """Fields of provider items that the service does not take back."""
    refused: RefusedItems = field(default_factory=RefusedItems)
    """Signed fields that it no longer accepts."""

    def taken(self, fields: dict[str, Any]) -> dict[str, Any]:
        """Those of the fields of provider items that may be sent."""
        return {
            name: value for name, value in fields.items() if name not in self.left_out and value not in self.refused
        }

    def learn(self, fault: Fault, request: ModelRequest, origin: str) -> str | None:
        """Learn from a refusal. `None` if it teaches nothing new, else what to tell the user, with `{}` for the model;
        empty if they need not know."""
        said = f"{fault.param} {fault.detail}"
        if fault.kind != "status" or fault.status not in _REFUSALS or fault.too_long is not None:
            return None
        if not self.short_ids and _BAD_ID.search(said):
            self.short_ids = True
            return ""
        if not self.ends_steps and _BAD_ORDER.search(said):
            self.ends_steps = True
            return ""
        if _ASKED_FOR.search(said):
            is_new = not self.asks_for_reasoning
            self.asks_for_reasoning = True
            self.left_out.discard("reasoning_content")
            return "" if is_new else None
        sent = [self.taken(fields) for fields in _fields_of(request, origin)]
        for name, words in _FIELDS.items():
            if words.search(said) and any(name in fields for fields in sent):
                self.left_out.add(name)
                self.asks_for_reasoning = self.asks_for_reasoning and name != "reasoning_content"
                return ""
        silent = any(message.get("tool_calls") and not text_of(message).strip() for message in request.messages)
        if silent and self.empty < len(_BAD_EMPTY) and _BAD_EMPTY[self.empty].search(said):
            self.empty += 1
            return ""
        signed = [fields[name] for fields in sent for name in _SIGNED if name in fields]
        if not signed or not _BAD_SIGNATURE.search(said):
            return None
        self.refused.add(signed)
        return _NO_THOUGHTS


def dialect_at(where: str) -> Dialect:
    """The dialect for which an address is known."""
    is_mistral = f".{urlsplit(where).hostname or ''}".endswith(_MISTRAL)
    return Dialect(short_ids=is_mistral, ends_steps=is_mistral)


def _fields_of(request: ModelRequest, origin: str) -> Iterator[dict[str, Any]]:
    """The fields of the provider items that a request may contain."""
    for message in request.messages:
        for item in readable_items(message, "chat", origin) or ():
            if isinstance(item, OpaqueItem):
                yield item.item
            elif isinstance(item, CallItem):
                yield item.frame or {}


def build_messages(request: ModelRequest, origin: str, dialect: Dialect) -> Iterator[WireMessage]:
    """The messages as this API takes them, and as this service does. Tool messages can't have pictures here, so the
    pictures of a step's calls follow its tool messages as a message of the user."""
    follows_result = False
    for message in _messages(request, origin, dialect):
        if follows_result and message["role"] == "user" and dialect.ends_steps:
            yield {"role": "assistant", "content": _GOES_ON}
        follows_result = message["role"] == "tool"
        yield message


def _messages(request: ModelRequest, origin: str, dialect: Dialect) -> Iterator[WireMessage]:
    ids = _CallIds(short=dialect.short_ids)
    shown: list[Part] = []
    for message in request.messages:
        is_result = message["role"] == "tool"
        if shown and not is_result:
            yield {"role": "user", "content": shown}
            shown = []
        text = text_of(message)
        if message.keys() == _PLAIN and text is message["content"] and text.strip():
            yield message
            continue
        pictures = [_picture(ref, request) for ref in message.get(IMAGES, ())]
        if is_result:
            own = ids.of(message["tool_call_id"])
            yield {"role": "tool", "tool_call_id": own, "content": text if text.strip() else NO_OUTPUT}
            shown += [_text(SHOWN_BY.format(own)), *pictures] if pictures else []
        elif message["role"] == "assistant":
            yield from _answer(message, origin, dialect, ids)
        elif pictures:
            yield {"role": message["role"], "content": [*([_text(text)] if text.strip() else []), *pictures]}
        elif text.strip():
            yield {"role": message["role"], "content": text}
    if shown:
        yield {"role": "user", "content": shown}


def _answer(message: WireMessage, origin: str, dialect: Dialect, ids: "_CallIds") -> Iterator[WireMessage]:
    """An answer with what this origin wants back with it; nothing where nothing was said or asked for, because some
    services refuse an empty text there, and others null."""
    text, calls = text_of(message), message.get("tool_calls") or []
    if not calls and not text.strip():
        return
    answer: WireMessage = {"role": "assistant", **({"content": text} if text.strip() else _EMPTY[dialect.empty])}
    frames: dict[int, dict[str, Any]] = {}
    for item in readable_items(message, "chat", origin) or ():
        match item:
            case OpaqueItem():
                fields = dialect.taken(item.item)
                if thinking := fields.pop("content", None):
                    fields["content"] = [*thinking, *([_text(text)] if text.strip() else [])]
                answer |= fields
            case CallItem():
                frames[item.index] = item.frame or {}
            case TextItem():
                pass  # the text is whole here
    if calls:
        answer["tool_calls"] = [_call(call, frames.get(at, {}), dialect, ids) for at, call in enumerate(calls)]
        if dialect.asks_for_reasoning:
            answer.setdefault("reasoning_content", "")
    yield answer


def _call(call: dict[str, Any], frame: dict[str, Any], dialect: Dialect, ids: "_CallIds") -> dict[str, Any]:
    own = ids.of(call["id"], frame.get("id"))
    return {**call, **dialect.taken(frame), "id": own} if frame or own != call["id"] else call


class _CallIds:
    """The ids that one request has for the calls of a conversation: the same in each request, and different for
    different calls."""

    def __init__(self, *, short: bool) -> None:
        self._short = short
        self._ids: dict[str, str] = {}
        self._used: set[str] = set()

    def of(self, call_id: str, given: str | None = None) -> str:
        """`given` is the id that the service itself gave to the call, where it has to be that one."""
        if call_id not in self._ids:
            self._ids[call_id] = self._short_id(call_id) if self._short else given or call_id
            self._used.add(self._ids[call_id])
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
