"""Anthropic's Messages API: requests. Ollama, vLLM, LM Studio speak it too.

The API refuses a call without its result in the very next message, a result that is not first there, an answer at the
end, an empty text block, and ids with characters other than letters, digits, `_` and `-`. What is built here has none
of these, whatever was stopped, cut off or written by another model.
"""

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agent_kernel.models.anthropic_answer import MessagesReader
from agent_kernel.models.api import Api
from agent_kernel.models.base import IMAGES, ModelRequest, WireMessage, text_of
from agent_kernel.models.images import absent_line
from agent_kernel.models.provider_items import CallItem, OpaqueItem, TextItem, is_storable, readable_items
from agent_kernel.tools.outcome_texts import NOT_DONE_PREFIXES

Block = dict[str, Any]

LONGEST_ID = 64
LONGEST_NAME = 128
NO_RESULT = "The result of this call is not known."
_CACHED = {"type": "ephemeral"}
_ODD = re.compile(r"[^a-zA-Z0-9_-]")
_FAILED = re.compile(rf"(?:{'|'.join(NOT_DONE_PREFIXES)})\b")

_KINDS: tuple[tuple[re.Pattern[str], bool, int], ...] = (
    (re.compile(r"claude-(?:[123]\b|v\d|instant)"), False, 4_096),
    (re.compile(r"claude-(?:opus|sonnet|haiku)-4(?:$|[@:]|-20|[-.][015](?!\d))"), False, 32_000),
    (re.compile(r"claude-"), True, 64_000),
)
"""Whether Anthropic's models think adaptively and take an effort, and the longest answer in tokens, which a request has
to name (platform.claude.com/docs/en/build-with-claude/thinking, read in November 2026). Models before 4.6 do neither
without a budget of tokens; they are asked without thinking."""
_OTHERS = (False, 8_192)
_TOO_MANY = re.compile(r"max_tokens: \d+ > (?P<most>\d+)|(?P<input>\d+) \+ \d+ > (?P<context>\d+)")
_FEWEST_TOKENS = 512


class MessagesApi(Api):
    name = "messages"
    path = "v1/messages"

    def __init__(self, wire_name: str, where: str) -> None:
        super().__init__(wire_name, where)
        kinds = ((thinks, tokens) for pattern, thinks, tokens in _KINDS if pattern.search(wire_name))
        self._thinks, self._most_tokens = next(kinds, _OTHERS)

    def whole_body(self, request: ModelRequest) -> dict[str, Any]:
        """The request body. Parts that change between requests are last, so that the service can cache the
        beginning."""
        system, messages = build_messages(request, self.origin)
        mark_for_cache(messages)
        return {
            "model": self.wire_name,
            "max_tokens": self._most_tokens,
            "stream": True,
            **({"thinking": {"type": "adaptive", "display": "summarized"}} if self._thinks else {}),
            **({"output_config": {"effort": request.effort}} if request.effort is not None else {}),
            **tools(request.tools, messages),
            **({"system": system} if system else {}),
            "messages": messages,
        }

    def reader(self) -> MessagesReader:
        return MessagesReader(self.origin)

    def shorten_answers(self, said: str) -> bool:
        """Ask for the longest answer that a refusal names, or else for a quarter of the last length. Returns whether
        the refusal is about that."""
        now = self._most_tokens
        most = now // 4
        if found := _TOO_MANY.search(said):
            most = int(found["most"] or int(found["context"]) - int(found["input"]))
        if "max_tokens" not in said or not _FEWEST_TOKENS <= most < now:
            return False
        self._most_tokens = most
        return True


def build_messages(request: ModelRequest, origin: str) -> tuple[list[Block], list[Block]]:
    """The system prompt and the messages, both with the marks up to which the service may cache them."""
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
                building.add_answer(list(_answer(message, origin)))
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


def _answer(message: WireMessage, origin: str) -> Iterator[Block]:
    """An answer's blocks in their original order, if this origin made them; else text, then calls."""
    content, calls = text_of(message), message.get("tool_calls") or []
    at, called = 0, set()
    for item in readable_items(message, "messages", origin) or ():
        match item:
            case OpaqueItem():
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
    try:
        given = json.loads(arguments)
    except (ValueError, RecursionError):
        return {}
    return given if isinstance(given, dict) and is_storable(given) else {}


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
