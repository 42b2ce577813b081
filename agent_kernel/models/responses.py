"""OpenAI's Responses API: requests, and what to change when one is refused.

Nothing is stored at the service: each request contains the whole conversation, with reasoning in encrypted form.
"""

import hashlib
import logging
import re
from collections.abc import Iterator
from typing import Any

from agent_kernel.models.api import Amendment, Api
from agent_kernel.models.base import IMAGES, ModelRequest, WireMessage
from agent_kernel.models.images import absent_line, data_url
from agent_kernel.models.provider_items import CallItem, Item, OpaqueItem, RefusedItems, TextItem, readable_items
from agent_kernel.models.responses_answer import ResponsesReader
from agent_kernel.models.service_faults import Fault

InputItem = dict[str, Any]

LONGEST_ID = 64
"""The service's limit for a call's id, a function's name and a cache key, in characters."""
ENCRYPTED = "reasoning.encrypted_content"
_NAME = re.compile(r"[^a-zA-Z0-9_-]")
_DISPENSABLE = ("reasoning.summary", "reasoning.effort", "include", "prompt_cache_key", "store", "reasoning")
"""Fields that some services and models refuse, and that hardly matter for the answer."""
_ABOUT_AN_ITEM = re.compile(r"\brs_\w+|encrypted|reasoning\W+item|item\W+of type\W+reasoning|input\[\d+\]", re.I)
_ITEM_ID = re.compile(r"\b[a-z]{2,4}_[0-9A-Za-z]{6,}")

_log = logging.getLogger(__name__)


class ResponsesApi(Api):
    name = "responses"
    path = "responses"

    def __init__(self, wire_name: str, where: str) -> None:
        super().__init__(wire_name, where)
        self._left_out: set[str] = set()
        """Fields that the service refused. An entry for the effort includes its value."""
        self._refused = RefusedItems()

    def body(self, request: ModelRequest) -> dict[str, Any]:
        messages = list(request.messages)
        body: dict[str, Any] = {"model": self.wire_name, "stream": True, "store": False, "include": [ENCRYPTED]}
        if messages and messages[0]["role"] == "system":
            body["instructions"] = messages.pop(0)["content"]
        body["input"] = [item for message in messages for item in self._items(message, request)]
        if request.tools:
            body["tools"] = [_tool(tool) for tool in request.tools]
        if request.cache_key:
            body["prompt_cache_key"] = _short(request.cache_key)
        body["reasoning"] = {"summary": "auto"}
        if request.effort is not None:
            body["reasoning"]["effort"] = request.effort
        for name in self._left_out:
            _leave_out(body, name)
        return body

    def reader(self) -> ResponsesReader:
        return ResponsesReader(self.origin)

    def amended(self, request: ModelRequest, fault: Fault) -> Amendment | None:
        """The request without an unknown field, or without reasoning that the service no longer accepts."""
        if fault.status not in (400, 404, 422):
            return None
        if fault.param.startswith(_DISPENSABLE):
            return self._without_field(request, fault)
        if refused := self._items_refused(request, fault):
            self._refused.add(refused)
            return Amendment(
                request,
                f"{self.wire_name} no longer accepts what it thought earlier in this conversation, so it was asked "
                "without that.",
            )
        return self._without_field(request, fault) if not fault.param else None

    def _without_field(self, request: ModelRequest, fault: Fault) -> Amendment | None:
        name = next((one for one in _DISPENSABLE if _names(fault, one)), None)
        if name is None:
            return None
        notice = ""
        if name.startswith("reasoning") and request.effort is None and name != "reasoning.summary":
            name = "reasoning"
        elif name in ("reasoning", "reasoning.effort"):
            notice = f"{self.wire_name} does not take the effort {request.effort!r}; it was left to the model."
        if name == "reasoning.effort":
            name = f"{name}={request.effort}"
        if name not in self._left_out:
            self._left_out.add(name)
            _log.info("%s does not take %s: %s", self.origin, name, fault.detail[:200])
        return Amendment(request, notice)

    def _items_refused(self, request: ModelRequest, fault: Fault) -> list[InputItem]:
        """The items of the turns that the service names, or of all if it names none."""
        about = f"{fault.code} {fault.param} {fault.detail}"
        if not _ABOUT_AN_ITEM.search(about):
            return []
        turns = [_opaque(self._usable(message)) for message in request.messages]
        named = set(_ITEM_ID.findall(fault.detail))
        hit = [items for items in turns if any(item.get("id") in named for item in items)]
        return [item for items in hit or turns for item in items]

    def _usable(self, message: WireMessage) -> tuple[Item, ...] | None:
        """The provider items of a message, if the service takes all of them."""
        items = readable_items(message, self.name, self.origin)
        return None if any(item in self._refused for item in _opaque(items)) else items

    def _items(self, message: WireMessage, request: ModelRequest) -> Iterator[InputItem]:
        match message["role"]:
            case "assistant":
                kept = self._usable(message)
                if kept is not None and _fit(kept, message):
                    yield from _kept_items(kept, message)
                else:
                    yield from _plain_items(message)
            case "tool":
                output = _with_pictures(message, request) if message.get(IMAGES) else message["content"]
                yield {"type": "function_call_output", "call_id": _short(message["tool_call_id"]), "output": output}
            case "user":
                content = _with_pictures(message, request) if message.get(IMAGES) else message["content"]
                yield {"type": "message", "role": "user", "content": content}
            case _:
                yield {"type": "message", "role": "developer", "content": message["content"]}


def _names(fault: Fault, field: str) -> bool:
    """Whether a fault is about a field: by its `param`, or quoted in its message."""
    if fault.param:
        return fault.param.startswith(field)
    return re.search(rf"['\"`]{re.escape(field)}\b", fault.detail) is not None


def _leave_out(body: dict[str, Any], name: str) -> None:
    field, _, part = name.partition("=")[0].partition(".")
    if not part:
        body.pop(field, None)
    elif isinstance(inner := body.get(field), dict) and ("=" not in name or name.endswith(f"={inner.get(part)}")):
        inner.pop(part, None)
        if not inner:
            del body[field]


def _tool(tool: dict[str, Any]) -> dict[str, Any]:
    """Tool declarations in this API's format. `strict` is off, because it makes every parameter required."""
    return {"type": "function", "parameters": None, **tool["function"], "strict": False}


def _fit(items: tuple[Item, ...], message: WireMessage) -> bool:
    """Whether the items match the message: they cover all of its text, and each call once."""
    texts = sum(item.length for item in items if isinstance(item, TextItem))
    indices = [item.index for item in items if isinstance(item, CallItem)]
    return texts == len(message["content"] or "") and sorted(indices) == list(range(len(message.get("tool_calls", ()))))


def _kept_items(items: tuple[Item, ...], message: WireMessage) -> Iterator[InputItem]:
    """The turn in the provider's order, without reasoning at its end, which the service refuses."""
    others = [not isinstance(item, OpaqueItem) or item.item.get("type") != "reasoning" for item in items]
    last = max((place for place, is_other in enumerate(others) if is_other), default=-1)
    at = 0
    for item in items[: last + 1]:
        match item:
            case OpaqueItem():
                yield item.item
            case TextItem():
                yield _message(message["content"][at : at + item.length], item.frame)
                at += item.length
            case CallItem():
                yield _call(message["tool_calls"][item.index], item.frame)


def _plain_items(message: WireMessage) -> Iterator[InputItem]:
    if message["content"]:
        yield _message(message["content"], None)
    for call in message.get("tool_calls", ()):
        yield _call(call, None)


def _message(text: str, frame: dict[str, Any] | None) -> InputItem:
    if frame is None:
        return {"type": "message", "role": "assistant", "content": text}
    parts = []
    for part in frame["content"]:
        name = "refusal" if part["type"] == "refusal" else "text"
        start, end = part[name]
        parts.append({**part, name: text[start:end]})
    return {**frame, "content": parts}


def _call(call: dict[str, Any], frame: dict[str, Any] | None) -> InputItem:
    function = call["function"]
    return {
        **(frame or {}),
        "type": "function_call",
        "call_id": _short(call["id"]),
        "name": _NAME.sub("_", function["name"])[:LONGEST_ID] or "unnamed",
        "arguments": function["arguments"],
    }


def _with_pictures(message: WireMessage, request: ModelRequest) -> list[dict[str, Any]]:
    said = message["content"]
    parts: list[dict[str, Any]] = [{"type": "input_text", "text": said}] if said else []
    for ref in message[IMAGES]:
        url = data_url(ref, request.images)
        if url is None:
            parts.append({"type": "input_text", "text": absent_line(ref)})
        else:
            parts.append({"type": "input_image", "detail": "auto", "image_url": url})
    return parts


def _short(name: str) -> str:
    """Shorten a name that exceeds `LONGEST_ID`, always to the same result. Other services allow longer ids."""
    return name if len(name) <= LONGEST_ID else hashlib.sha256(name.encode("utf-8", "replace")).hexdigest()


def _opaque(items: tuple[Item, ...] | None) -> list[InputItem]:
    return [item.item for item in items or () if isinstance(item, OpaqueItem)]
