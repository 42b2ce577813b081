"""Encodes text answers of the fake model server in each API."""

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

END = b"0\r\n\r\n"
USAGE = 100
"""The token count that every answer reports."""


@dataclass(frozen=True, eq=False)
class Dialect:
    opening: bytes
    token: Callable[[str], bytes]
    closing: Callable[[str], bytes]
    """Makes the end of an answer from the whole text, which some APIs repeat there."""


def chunk(data: bytes) -> bytes:
    """A piece of a chunked HTTP body."""
    return b"%x\r\n%s\r\n" % (len(data), data)


def _compact(body: dict[str, Any]) -> bytes:
    return json.dumps(body, separators=(",", ":")).encode()


def event(delta: dict[str, object], finish: str | None = None) -> bytes:
    """A chunk of Chat Completions."""
    body = {
        "id": "chatcmpl-0123456789",
        "object": "chat.completion.chunk",
        "created": 1_750_000_000,
        "model": "fake",
        "choices": [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}],
    }
    return chunk(b"data: " + _compact(body) + b"\n\n")


OPENING = event({"role": "assistant", "content": ""})
_CHAT_USAGE = chunk(
    b'data: {"id":"chatcmpl-0123456789","object":"chat.completion.chunk","created":1750000000,"model":"fake",'
    b'"choices":[],"usage":{"prompt_tokens":100,"completion_tokens":100,"total_tokens":200}}\n\n'
)
CLOSING = _CHAT_USAGE + chunk(b"data: [DONE]\n\n") + END
"""What follows the chunk with the finish reason."""

CHAT = Dialect(OPENING, lambda text: event({"content": text}), lambda _: event({}, "stop") + CLOSING)


def _named(bodies: Iterable[dict[str, Any]]) -> bytes:
    return b"".join(chunk(b"event: %s\ndata: %s\n\n" % (one["type"].encode(), _compact(one))) for one in bodies)


_BLOCK = {"index": 0}
_MESSAGES_USAGE = {"input_tokens": USAGE, "cache_read_input_tokens": 0, "cache_creation_input_tokens": 0}
_MESSAGE = {
    "id": "msg_0123456789",
    "type": "message",
    "role": "assistant",
    "model": "fake",
    "content": [],
    "stop_reason": None,
    "stop_sequence": None,
    "usage": {**_MESSAGES_USAGE, "output_tokens": 1},
}
MESSAGES = Dialect(
    _named(
        [
            {"type": "message_start", "message": _MESSAGE},
            {"type": "content_block_start", **_BLOCK, "content_block": {"type": "text", "text": ""}},
            {"type": "ping"},
        ]
    ),
    lambda text: _named([{"type": "content_block_delta", **_BLOCK, "delta": {"type": "text_delta", "text": text}}]),
    lambda _: (
        _named(
            [
                {"type": "content_block_stop", **_BLOCK},
                {
                    "type": "message_delta",
                    "delta": {"stop_reason": "end_turn", "stop_sequence": None},
                    "usage": {**_MESSAGES_USAGE, "output_tokens": USAGE},
                },
                {"type": "message_stop"},
            ]
        )
        + END
    ),
)

_PLACE = {"item_id": "msg_0123456789", "output_index": 0}


def _part(text: str) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def _item(text: str | None) -> dict[str, Any]:
    status = "in_progress" if text is None else "completed"
    content = [] if text is None else [_part(text)]
    return {"id": _PLACE["item_id"], "type": "message", "role": "assistant", "status": status, "content": content}


def _response(text: str | None) -> dict[str, Any]:
    usage = {
        "input_tokens": USAGE,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": USAGE,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 2 * USAGE,
    }
    return {
        "id": "resp_0123456789",
        "object": "response",
        "created_at": 1_750_000_000,
        "model": "fake",
        "status": "in_progress" if text is None else "completed",
        "output": [] if text is None else [_item(text)],
        "usage": None if text is None else usage,
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
    }


def _text_ended(text: str) -> bytes:
    return _named(
        [
            {"type": "response.output_text.done", **_PLACE, "content_index": 0, "text": text, "logprobs": []},
            {"type": "response.content_part.done", **_PLACE, "content_index": 0, "part": _part(text)},
            {"type": "response.output_item.done", "output_index": 0, "item": _item(text)},
            {"type": "response.completed", "response": _response(text)},
        ]
    )


RESPONSES = Dialect(
    _named(
        [
            {"type": "response.created", "response": _response(None)},
            {"type": "response.in_progress", "response": _response(None)},
            {"type": "response.output_item.added", "output_index": 0, "item": _item(None)},
            {"type": "response.content_part.added", **_PLACE, "content_index": 0, "part": _part("")},
        ]
    ),
    lambda text: _named(
        [{"type": "response.output_text.delta", **_PLACE, "content_index": 0, "delta": text, "logprobs": []}]
    ),
    lambda text: _text_ended(text) + END,
)

DIALECTS = {"chat/completions": CHAT, "responses": RESPONSES, "messages": MESSAGES}
"""Encoders by the path below /v1."""
