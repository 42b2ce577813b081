"""Anthropic's Messages API: requests, and what to change when one is refused. Ollama, vLLM, LM Studio speak it too.

The API refuses a call without its result in the very next message, a result that is not first there, an answer at the
end, an empty text block, and ids with characters other than letters, digits, `_` and `-`. What is built here has none
of these, whatever was stopped, cut off or written by another model.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from agent_kernel.models.anthropic_answer import MessagesReader
from agent_kernel.models.api import Amendment, Api
from agent_kernel.models.base import IMAGES, ModelRequest, WireMessage, text_of
from agent_kernel.models.images import absent_line
from agent_kernel.models.provider_items import CallItem, OpaqueItem, RefusedItems, TextItem, readable_items
from agent_kernel.models.service_faults import Fault
from agent_kernel.protocol.vocabulary import Effort
from agent_kernel.tools.outcome_texts import NOT_DONE_PREFIXES

Block = dict[str, Any]

LONGEST_ID = 64
LONGEST_NAME = 128
DEEPEST = 100
"""The most levels of nesting in a call's arguments."""
NO_RESULT = "The result of this call is not known."
_CACHED = {"type": "ephemeral"}
_BRACKETS = re.compile(r"[\[\]{}]")
_ODD = re.compile(r"[^a-zA-Z0-9_-]")
_THOUGHT = frozenset({"thinking", "redacted_thinking"})
_FAILED = re.compile(rf"(?:{'|'.join(NOT_DONE_PREFIXES)})\b")

Thinking = Literal["adaptive", "budget", "none"]
"""How a model is asked to think: adaptively, with a budget of tokens, or not at all."""

_BUDGETS: dict[Effort, int] = {"low": 2_048, "medium": 8_192, "high": 16_384}
_KINDS: tuple[tuple[re.Pattern[str], Thinking, int], ...] = (
    (re.compile(r"claude-(?:[123]\b|v\d|instant)"), "none", 4_096),
    (re.compile(r"claude-(?:opus|sonnet|haiku)-4(?:$|[@:]|-20|[-.][015](?!\d))"), "budget", 32_000),
    (re.compile(r"claude-"), "adaptive", 64_000),
)
"""The kind of thinking that Anthropic's models take, and the longest answer in tokens, which a request has to name.
Models before 4.6 know neither adaptive thinking nor effort (platform.claude.com/docs/en/build-with-claude/thinking,
read in November 2026)."""
_OTHERS: tuple[Thinking, int] = ("none", 8_192)

_NO_EFFORT = "{} has no setting for effort, so it was asked without."
_NO_THOUGHTS = (
    "{} no longer takes back what it thought earlier in this conversation, because something before it has changed. "
    "It was asked without."
)

_BAD_THOUGHT = re.compile(r"signature|thinking`? blocks?\b.*(?:modified|match|remain)", re.DOTALL)
_TOO_MANY = re.compile(r"max_tokens: \d+ > (?P<most>\d+)|(?P<input>\d+) \+ \d+ > (?P<context>\d+)")
_FEWEST_TOKENS = 512


class MessagesApi(Api):
    name = "messages"
    path = "v1/messages"

    def __init__(self, wire_name: str, where: str) -> None:
        super().__init__(wire_name, where)
        kinds = ((thinking, tokens) for pattern, thinking, tokens in _KINDS if pattern.search(wire_name))
        self._thinking, self._most_tokens = next(kinds, _OTHERS)
        self._refused_thinking: set[Thinking] = set()
        self._takes_effort = True
        self._refused_thoughts = RefusedItems()

    def body(self, request: ModelRequest) -> dict[str, Any]:
        """The request body. Parts that change between requests are last, so that the service can cache the
        beginning."""
        system, messages = build_messages(request, self.origin, self._refused_thoughts)
        mark_for_cache(messages)
        return {
            "model": self.wire_name,
            "max_tokens": self._most_tokens,
            "stream": True,
            **self._thinking_fields(request.effort),
            **tools(request.tools, messages),
            **({"system": system} if system else {}),
            "messages": messages,
        }

    def reader(self) -> MessagesReader:
        return MessagesReader(self.origin)

    def amended(self, request: ModelRequest, fault: Fault) -> Amendment | None:
        """The request without the refused part: thinking that no longer fits the conversation, or a setting that the
        model does not have."""
        if fault.status not in (400, 422):
            return None
        said = fault.detail.lower()
        if _BAD_THOUGHT.search(said):
            return self._without_thoughts(request)
        if "max_tokens" in said:
            return self._shorter(request, said)
        if "thinking" in said:
            return self._thinking_otherwise(request, said)
        if request.effort is not None and self._takes_effort and ("effort" in said or "output_config" in said):
            self._takes_effort = False
            return Amendment(request, _NO_EFFORT.format(self.wire_name))
        return None

    def _thinking_fields(self, effort: Effort | None) -> dict[str, Any]:
        fields: dict[str, Any] = {}
        if self._thinking == "adaptive":
            fields["thinking"] = {"type": "adaptive", "display": "summarized"}
        elif self._thinking == "budget" and effort is not None:
            fields["thinking"] = {"type": "enabled", "budget_tokens": _BUDGETS[effort]}
        if self._thinking != "budget" and effort is not None and self._takes_effort:
            fields["output_config"] = {"effort": effort}
        return fields

    def _without_thoughts(self, request: ModelRequest) -> Amendment | None:
        """Drop all thinking blocks, because dropping one invalidates those after it."""
        thoughts = thinking_blocks(request.messages, self.origin)
        sent = [block for block in thoughts if block not in self._refused_thoughts]
        if not sent:
            return None
        self._refused_thoughts.add(sent)
        return Amendment(request, _NO_THOUGHTS.format(self.wire_name))

    def _shorter(self, request: ModelRequest, said: str) -> Amendment | None:
        """Ask for the longest answer that the service names, or else for a quarter of the last length."""
        now = self._most_tokens
        most = now // 4
        if found := _TOO_MANY.search(said):
            most = int(found["most"] or int(found["context"]) - int(found["input"]))
        if not _FEWEST_TOKENS <= most < now:
            return None
        self._most_tokens = most
        return Amendment(request)

    def _thinking_otherwise(self, request: ModelRequest, said: str) -> Amendment | None:
        now = self._thinking
        if "expected `thinking`" in said:  # a step whose thinking was left out can't go on with a budget
            return Amendment(replace(request, effort=None)) if now == "budget" and request.effort is not None else None
        if "thinking" not in self._thinking_fields(request.effort):
            return None
        self._refused_thinking.add(now)
        other: Thinking = "budget" if now == "adaptive" else "adaptive"
        takes_other = "adaptive" in said and other not in self._refused_thinking
        self._thinking = other if takes_other else "none"
        ignored = request.effort is not None and not takes_other
        return Amendment(request, _NO_EFFORT.format(self.wire_name) if ignored else "")


def build_messages(request: ModelRequest, origin: str, refused: RefusedItems) -> tuple[list[Block], list[Block]]:
    """The system prompt and the messages, both with the marks up to which the service may cache them; without the
    `refused` items."""
    system: list[Block] = []
    building = _Conversation()
    images = request.images
    for message in request.messages:
        match message["role"]:
            case "system" | "developer":
                system += _text(text_of(message))
            case "user":
                building.said += [*_images(message, images), *_text(text_of(message))]
            case "tool":
                building.add_result(message["tool_call_id"], _result(message, images))
            case _:
                building.add_answer(list(_answer(message, origin, refused)))
    _mark(system[-1:])
    return system, building.finish()


def tools(offered: Sequence[dict[str, Any]], messages: Sequence[Block]) -> dict[str, Any]:
    """The request's fields for tools. The API refuses a conversation with calls and no tools, so the tools that were
    called are declared then, with `tool_choice` none."""
    if offered:
        made = [_tool(one["function"]) for one in offered]
        _mark(made[-1:])
        return {"tools": made}
    names = {block["name"]: None for message in messages for block in message["content"] if block["type"] == "tool_use"}
    if not names:
        return {}
    made = [{"name": name, "input_schema": {"type": "object"}} for name in names]
    return {"tools": made, "tool_choice": {"type": "none"}}


def mark_for_cache(messages: Sequence[Block]) -> None:
    """Mark the end of this request and of the one before as cacheable. Two marks, because the service looks only some
    twenty blocks back from a mark, and a step of many calls is longer."""
    ends = [message["content"][-1:] for message in messages if message["role"] == "user"]
    for end in ends[-2:]:
        _mark(end)


def thinking_blocks(messages: Iterable[WireMessage], origin: str) -> Iterator[Block]:
    """The thinking blocks that a request would contain."""
    for message in messages:
        for item in readable_items(message, "messages", origin) or ():
            if isinstance(item, OpaqueItem) and item.item.get("type") in _THOUGHT:
                yield item.item


@dataclass(slots=True)
class _Conversation:
    """Assembles answers, results of calls and the user's messages into alternating turns."""

    messages: list[Block] = field(default_factory=list)
    calls: list[str] = field(default_factory=list)
    """The ids of the last answer's calls, in order."""
    results: dict[str, Block] = field(default_factory=dict)
    said: list[Block] = field(default_factory=list)
    """The user's blocks since the last answer."""

    def add_result(self, call_id: str, result: Block) -> None:
        valid = valid_id(call_id)
        if valid in self.calls and valid not in self.results:
            self.results[valid] = {"type": "tool_result", "tool_use_id": valid, **result}

    def add_answer(self, blocks: list[Block]) -> None:
        if not blocks:
            return
        self._end_turn()
        if not self.messages:  # earlier messages were left out
            self.messages.append({"role": "user", "content": _text("(The conversation goes on.)")})
        self._append("assistant", blocks)
        self.calls = [block["id"] for block in blocks if block["type"] == "tool_use"]

    def finish(self) -> list[Block]:
        self._end_turn()
        if not self.messages or self.messages[-1]["role"] == "assistant":
            self._append("user", _text("Go on."))
        return self.messages

    def _end_turn(self) -> None:
        missing = {"type": "tool_result", "content": NO_RESULT, "is_error": True}
        results = [self.results.get(one) or {**missing, "tool_use_id": one} for one in self.calls]
        self._append("user", results + self.said)
        self.calls, self.results, self.said = [], {}, []

    def _append(self, role: str, blocks: list[Block]) -> None:
        if not blocks:
            return
        if self.messages and self.messages[-1]["role"] == role:
            self.messages[-1]["content"] += blocks
        else:
            self.messages.append({"role": role, "content": blocks})


def _answer(message: WireMessage, origin: str, refused: RefusedItems) -> Iterator[Block]:
    """An answer's blocks in their original order, if this origin made them; else text, then calls."""
    content, calls = text_of(message), message.get("tool_calls") or []
    at, called = 0, set()
    for item in readable_items(message, "messages", origin) or ():
        match item:
            case OpaqueItem():
                if item.item not in refused:
                    yield item.item
            case TextItem():
                yield from _text(content[at : at + item.length])
                at += item.length
            case CallItem():
                if item.index < len(calls) and item.index not in called:
                    called.add(item.index)
                    yield _call(calls[item.index])
    yield from _text(content[at:])
    yield from (_call(call) for index, call in enumerate(calls) if index not in called)


def _call(call: dict[str, Any]) -> Block:
    function = call["function"]
    name = _ODD.sub("_", function["name"])[:LONGEST_NAME] or "unnamed"
    return {"type": "tool_use", "id": valid_id(call["id"]), "name": name, "input": _input(function["arguments"])}


def _input(arguments: str) -> dict[str, Any]:
    """A call's arguments as the object that this API takes; empty if they are invalid or nested too deeply."""
    depth = deepest = 0
    if arguments.count("{") + arguments.count("[") > DEEPEST:
        for sign in _BRACKETS.findall(arguments):
            depth += 1 if sign in "{[" else -1
            deepest = max(deepest, depth)
    given = json.loads(arguments) if deepest <= DEEPEST else {}
    return given if isinstance(given, dict) else {}


def valid_id(call_id: str) -> str:
    """Map a call's id to one that this API accepts. The mapping is stable and keeps different ids different."""
    plain = _ODD.sub("_", call_id)
    if plain == call_id and 0 < len(plain) <= LONGEST_ID:
        return plain
    digest = hashlib.sha256(call_id.encode(errors="replace")).hexdigest()[:16]
    return f"{plain[: LONGEST_ID - 17]}_{digest}"


def _result(message: WireMessage, images: Mapping[str, str]) -> Block:
    content = text_of(message)
    shown = _images(message, images)
    result: Block = {}
    if shown:
        result["content"] = [*_text(content), *shown]
    elif content.strip():
        result["content"] = content
    if _FAILED.match(content):
        result["is_error"] = True
    return result


def _images(message: WireMessage, images: Mapping[str, str]) -> list[Block]:
    return [block for ref in message.get(IMAGES, ()) for block in _image(ref, images)]


def _image(ref: dict[str, Any], images: Mapping[str, str]) -> list[Block]:
    data = images.get(ref["digest"])
    if data is None:
        return _text(absent_line(ref))
    return [{"type": "image", "source": {"type": "base64", "media_type": ref["media_type"], "data": data}}]


def _text(text: str) -> list[Block]:
    return [{"type": "text", "text": text}] if text.strip() else []


def _tool(function: dict[str, Any]) -> Block:
    made: Block = {"name": function["name"], "input_schema": {"type": "object", **(function.get("parameters") or {})}}
    if function.get("description"):
        made["description"] = function["description"]
    return made


def _mark(blocks: list[Block]) -> None:
    for block in blocks:
        block["cache_control"] = _CACHED
