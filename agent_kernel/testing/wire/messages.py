"""Encodes turns as Anthropic's Messages API sends them, and with the deviations of real servers."""

from collections.abc import Iterator
from itertools import count
from typing import Any

from agent_kernel.models.base import ModelTurn, RequestedCall, TokenUsage
from agent_kernel.models.provider_items import CallItem, OpaqueItem, ProviderItems, TextItem
from agent_kernel.testing.scripted_model import odd_pieces
from agent_kernel.testing.wire.reply import Reply, error_reply, events

Event = dict[str, Any]
Block = dict[str, Any]
SIGNED = "c2lnbmVk"
"""The signature of thinking for which a turn has no provider items."""
_STOPS = {"stop": "end_turn", "length": "max_tokens", "content_filter": "refusal"}
_ids = count(1)


def start(usage: TokenUsage | None = None) -> Event:
    message: dict[str, Any] = {
        "id": "msg_fake",
        "type": "message",
        "role": "assistant",
        "model": "fake",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {**_usage(usage or TokenUsage()), "output_tokens": 0},
    }
    return {"type": "message_start", "message": message}


def block_start(index: int, **block: Any) -> Event:
    """`block_start(0, type="text", text="")`."""
    return {"type": "content_block_start", "index": index, "content_block": block}


def delta(index: int, kind: str, **fields: Any) -> Event:
    """`delta(0, "text_delta", text="Hel")`."""
    return {"type": "content_block_delta", "index": index, "delta": {"type": kind, **fields}}


def block_stop(index: int) -> Event:
    return {"type": "content_block_stop", "index": index}


def stop(reason: str = "end_turn", usage: TokenUsage | None = None, **fields: Any) -> Event:
    counted = _usage(usage or TokenUsage())
    if usage is not None and usage.reasoning_tokens:
        counted["output_tokens_details"] = {"thinking_tokens": usage.reasoning_tokens}
    given = {"stop_reason": reason, "stop_sequence": None, **fields}
    return {"type": "message_delta", "delta": given, "usage": counted}


END: Event = {"type": "message_stop"}
PING: Event = {"type": "ping"}


def error(kind: str, message: str) -> Event:
    """An error within a stream: `error("overloaded_error", "Overloaded")`."""
    return {"type": "error", "error": {"type": kind, "message": message}}


def events_of(turn: ModelTurn, *, interleave: bool = False) -> list[Event]:
    """The events of a turn, text and arguments in odd pieces. `interleave` sends the blocks in turns."""
    columns = [list(_block_events(index, block)) for index, block in enumerate(blocks_of(turn))]
    longest = max(map(len, columns), default=0)
    if interleave:
        pieces = [column[row] for row in range(longest) for column in columns if row < len(column)]
    else:
        pieces = [event for column in columns for event in column]
    return [start(turn.usage), *pieces, stop(stop_reason(turn), turn.usage), END]


def stop_reason(turn: ModelTurn) -> str:
    return "tool_use" if turn.tool_calls else _STOPS[turn.finish_reason]


def blocks_of(turn: ModelTurn) -> list[Block]:
    """The content blocks of a turn: in the order of its items, else thinking, text, calls."""
    return list(_ordered(turn, turn.provider) if turn.provider is not None else _plain(turn))


def _plain(turn: ModelTurn) -> Iterator[Block]:
    if turn.reasoning:
        yield {"type": "thinking", "thinking": turn.reasoning, "signature": SIGNED}
    if turn.content:
        yield {"type": "text", "text": turn.content}
    yield from map(_tool_use, turn.tool_calls)


def _ordered(turn: ModelTurn, provider: ProviderItems) -> Iterator[Block]:
    at = 0
    for item in provider.items:
        match item:
            case OpaqueItem():
                yield item.item
            case TextItem():
                yield {"type": "text", "text": turn.content[at : at + item.length]}
                at += item.length
            case CallItem():
                yield _tool_use(turn.tool_calls[item.index])


def _tool_use(call: RequestedCall) -> Block:
    return {"type": "tool_use", "id": call.id or f"toolu_{next(_ids):06}", "name": call.name, "input": call.arguments}


def _block_events(index: int, block: Block) -> Iterator[Event]:
    match block["type"]:
        case "text":
            yield block_start(index, type="text", text="")
            yield from (delta(index, "text_delta", text=piece) for piece in odd_pieces(block["text"]))
        case "thinking":
            yield block_start(index, type="thinking", thinking="", signature="")
            yield from (delta(index, "thinking_delta", thinking=piece) for piece in odd_pieces(block["thinking"]))
            yield delta(index, "signature_delta", signature=block["signature"])
        case "tool_use":
            yield block_start(index, **{**block, "input": {}})
            yield delta(index, "input_json_delta", partial_json="")
            yield from (delta(index, "input_json_delta", partial_json=piece) for piece in odd_pieces(block["input"]))
        case _:
            yield block_start(index, **block)
    yield block_stop(index)


def _usage(usage: TokenUsage) -> dict[str, Any]:
    return {
        "input_tokens": usage.input_tokens - usage.cached_tokens - usage.cache_write_tokens,
        "cache_read_input_tokens": usage.cached_tokens,
        "cache_creation_input_tokens": usage.cache_write_tokens,
        "output_tokens": usage.output_tokens,
    }


def streamed(turn: ModelTurn, *, interleave: bool = False, **options: Any) -> Reply:
    """A turn as a stream. `options` are fields of `Reply`."""
    return events(*events_of(turn, interleave=interleave), **options)


def refusal(status: int, kind: str, message: str, *, times: int = 1, **headers: str) -> Reply:
    """An error answer in Anthropic's format: `refusal(529, "overloaded_error", "Overloaded")`."""
    body = {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_fake"}
    return error_reply(body, status, times=times, headers=headers)
