"""What the service of one model takes in Chat Completions, known by its address or learned from what it refused."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from agent_kernel.models.base import ModelRequest, text_of
from agent_kernel.models.provider_items import CallItem, OpaqueItem, RefusedItems, readable_items
from agent_kernel.models.service_faults import Fault

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

    @property
    def without_text(self) -> dict[str, Any]:
        """The fields of an answer with calls and no text."""
        return _EMPTY[self.empty]

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
        if self.empty < len(_BAD_EMPTY) and _BAD_EMPTY[self.empty].search(said) and _has_empty(request):
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


def _has_empty(request: ModelRequest) -> bool:
    """Whether an answer has calls and no text."""
    return any(message.get("tool_calls") and not text_of(message).strip() for message in request.messages)


def _fields_of(request: ModelRequest, origin: str) -> Iterator[dict[str, Any]]:
    """The fields of the provider items that a request may contain."""
    for message in request.messages:
        for item in readable_items(message, "chat", origin) or ():
            if isinstance(item, OpaqueItem):
                yield item.item
            elif isinstance(item, CallItem):
                yield item.frame or {}
