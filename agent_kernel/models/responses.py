"""OpenAI's Responses API: requests.

Nothing is stored at the service: each request contains the whole conversation, with reasoning in encrypted form.
"""

import hashlib
import re
from collections.abc import Iterator
from typing import Any

from agent_kernel.models.api import Api
from agent_kernel.models.base import IMAGES, ModelRequest, WireMessage
from agent_kernel.models.images import absent_line, data_url
from agent_kernel.models.provider_items import CallItem, Item, OpaqueItem, TextItem, readable_items
from agent_kernel.models.responses_answer import PARTS_APART, ResponsesReader

InputItem = dict[str, Any]

LONGEST_ID = 64
"""The service's limit for a call's id, a function's name and a cache key, in characters."""
ENCRYPTED = "reasoning.encrypted_content"
_NAME = re.compile(r"[^a-zA-Z0-9_-]")


class ResponsesApi(Api):
    name = "responses"
    path = "responses"

    def whole_body(self, request: ModelRequest) -> dict[str, Any]:
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
        return body

    def reader(self) -> ResponsesReader:
        return ResponsesReader(self.origin)

    def _items(self, message: WireMessage, request: ModelRequest) -> Iterator[InputItem]:
        match message["role"]:
            case "assistant":
                kept = readable_items(message, self.name, self.origin)
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
                yield _message(message["content"][at : at + item.length].removeprefix(PARTS_APART), item.frame)
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
    part = {"type": "output_text", "text": text, "annotations": []}
    return {"type": "message", "role": "assistant", "status": "completed", **frame, "content": [part]}


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
