"""Encodes turns as a Responses server sends them."""

import hashlib
from collections.abc import Iterable, Iterator
from itertools import count, zip_longest
from typing import Any

from agent_kernel.models.base import ModelTurn, RequestedCall, TokenUsage
from agent_kernel.models.provider_items import CallItem, OpaqueItem, TextItem
from agent_kernel.testing.scripted_model import odd_pieces
from agent_kernel.testing.wire.reply import Reply, events

Event = dict[str, Any]

_INCOMPLETE = {"length": "max_output_tokens", "content_filter": "content_filter"}


def response(status: str = "completed", output: Iterable[Event] = (), **fields: Any) -> Event:
    """The complete response object."""
    return {
        "id": "resp_fake",
        "object": "response",
        "created_at": 1_750_000_000,
        "model": "fake",
        "status": status,
        "output": list(output),
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "error": None,
        "incomplete_details": None,
        "usage": None,
        **fields,
    }


def usage(tokens: TokenUsage) -> Event:
    return {
        "input_tokens": tokens.input_tokens,
        "input_tokens_details": {
            "cached_tokens": tokens.cached_tokens,
            "cache_write_tokens": tokens.cache_write_tokens,
        },
        "output_tokens": tokens.output_tokens,
        "output_tokens_details": {"reasoning_tokens": tokens.reasoning_tokens},
        "total_tokens": tokens.input_tokens + tokens.output_tokens,
    }


def message(text: str, *, item_id: str = "msg_fake", status: str = "completed", **fields: Any) -> Event:
    part = {"type": "output_text", "text": text, "annotations": []}
    return {"id": item_id, "type": "message", "role": "assistant", "status": status, "content": [part], **fields}


def reasoning(summary: str, *, item_id: str = "rs_fake", encrypted: str | None = None) -> Event:
    return {
        "id": item_id,
        "type": "reasoning",
        "summary": [{"type": "summary_text", "text": summary}] if summary else [],
        "encrypted_content": encrypted or f"gAAAA-{item_id}",
    }


def function_call(call: RequestedCall, index: int, **fields: Any) -> Event:
    return {
        "id": f"fc_fake_{index}",
        "type": "function_call",
        "status": "completed",
        "call_id": call.id or f"call_fake_{index}",
        "name": call.name,
        "arguments": call.arguments,
        **fields,
    }


def items_of(turn: ModelTurn) -> list[Event]:
    """The items of a turn: its provider items, or else reasoning, text and calls in this order."""
    if turn.provider is not None:
        return list(_provided(turn))
    items = []
    if turn.reasoning:
        items.append(reasoning(turn.reasoning, item_id="rs_" + _digest(turn.reasoning)))
    if turn.content:
        items.append(message(turn.content, item_id="msg_" + _digest(turn.content)))
    return items + [function_call(call, index) for index, call in enumerate(turn.tool_calls)]


def events_of(turn: ModelTurn, *, interleave: bool = False) -> list[Event]:
    """The events of a turn, text and arguments in odd pieces. `interleave` sends parallel calls in turns."""
    return item_events(items_of(turn), interleave=interleave, finish=turn.finish_reason, tokens=turn.usage)


def item_events(
    items: list[Event],
    *,
    interleave: bool = False,
    finish: str = "stop",
    tokens: TokenUsage | None = None,
) -> list[Event]:
    """The events of any items."""
    shown = usage(tokens) if tokens is not None and (tokens.input_tokens or tokens.output_tokens) else None
    begun = response("in_progress")
    events = [{"type": "response.created", "response": begun}, {"type": "response.in_progress", "response": begun}]
    columns = [list(_item_events(item, index)) for index, item in enumerate(items)]
    together = [column for item, column in zip(items, columns, strict=True) if item["type"] == "function_call"]
    alone = [column for column in columns if not interleave or column not in together]
    events += [event for column in alone for event in column]
    if interleave:
        events += [event for row in zip_longest(*together) for event in row if event is not None]
    if finish in _INCOMPLETE:
        whole = response("incomplete", items, usage=shown, incomplete_details={"reason": _INCOMPLETE[finish]})
    else:
        whole = response("completed", items, usage=shown)
    return [*events, {"type": f"response.{whole['status']}", "response": whole}]


def failed(code: str, text: str) -> Event:
    return {"type": "response.failed", "response": response("failed", error={"code": code, "message": text})}


def numbered(events: Iterable[Event]) -> list[Event]:
    """Number the events by `sequence_number`."""
    counter = count()
    return [{**event, "sequence_number": next(counter)} for event in events]


def streamed(turn: ModelTurn, *, interleave: bool = False, **options: Any) -> Reply:
    """A turn as a stream. `options` are fields of `Reply`."""
    return events(*numbered(events_of(turn, interleave=interleave)), **options)


_BEGUN: dict[str, Event] = {
    "message": {"status": "in_progress", "content": []},
    "reasoning": {"summary": [], "encrypted_content": ""},
    "function_call": {"status": "in_progress", "arguments": ""},
}
"""The fields that an item does not have yet when it begins."""


def _item_events(item: Event, index: int) -> Iterator[Event]:
    place = {"output_index": index}
    own = {**place, "item_id": item["id"]}
    yield {"type": "response.output_item.added", **place, "item": {**item, **_BEGUN.get(item["type"], {})}}
    match item["type"]:
        case "message":
            for at, part in enumerate(item["content"]):
                for piece in odd_pieces(part.get("text", "")):  # of a refusal, the whole at the end says enough
                    where = {**own, "content_index": at, "logprobs": []}
                    yield {"type": "response.output_text.delta", **where, "delta": piece}
        case "reasoning":
            for at, part in enumerate(item["summary"]):
                for piece in odd_pieces(part["text"]):
                    yield {"type": "response.reasoning_summary_text.delta", **own, "summary_index": at, "delta": piece}
        case "function_call":
            for piece in odd_pieces(item["arguments"]):
                yield {"type": "response.function_call_arguments.delta", **own, "delta": piece}
    yield {"type": "response.output_item.done", **place, "item": item}


def _provided(turn: ModelTurn) -> Iterator[Event]:
    at = 0
    for item in turn.provider.items if turn.provider is not None else ():
        match item:
            case OpaqueItem():
                yield item.item
            case TextItem():
                text = turn.content[at : at + item.length]
                at += item.length
                yield message(text, item_id="msg_" + _digest(text))
            case CallItem():
                yield function_call(turn.tool_calls[item.index], item.index)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:16]
