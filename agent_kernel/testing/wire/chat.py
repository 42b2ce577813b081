"""Encodes turns as a Chat Completions server sends them, and with the deviations of real servers."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import zip_longest
from typing import Any

from agent_kernel.models.base import ModelTurn, RequestedCall
from agent_kernel.models.provider_items import CallItem, OpaqueItem, ProviderItems
from agent_kernel.testing.scripted_model import odd_pieces
from agent_kernel.testing.wire import reply
from agent_kernel.testing.wire.reply import Reply

Chunk = dict[str, Any]


def delta(finish_reason: str | None = None, **fields: Any) -> Chunk:
    """One chunk: `delta(content="Hel")`, `delta("stop")`."""
    return {
        "id": "chatcmpl-fake",
        "object": "chat.completion.chunk",
        "created": 1_750_000_000,
        "model": "fake",
        "choices": [{"index": 0, "delta": fields, "finish_reason": finish_reason}],
    }


def usage_chunk(input_tokens: int, output_tokens: int) -> Chunk:
    total = input_tokens + output_tokens
    usage = {"prompt_tokens": input_tokens, "completion_tokens": output_tokens, "total_tokens": total}
    return {**delta(), "choices": [], "usage": usage}


def chunks_of(turn: ModelTurn, *, interleave: bool = False) -> Iterator[Chunk]:
    """The chunks of a turn, text and arguments in odd pieces. `interleave` sends parallel calls in turns."""
    yield delta(role="assistant", content="")
    fields, frames = _wanted_back(turn)
    yield from (delta(**{name: value}) for name, value in fields.items())
    if not fields:
        yield from (delta(reasoning_content=piece) for piece in odd_pieces(turn.reasoning))
    yield from (delta(content=piece) for piece in odd_pieces(turn.content))
    columns = [_call_pieces(call, index, frames.get(index, {})) for index, call in enumerate(turn.tool_calls)]
    rows = zip_longest(*columns) if interleave else ((piece,) for column in columns for piece in column)
    yield from (delta(tool_calls=[piece]) for row in rows for piece in row if piece is not None)
    yield delta("tool_calls" if turn.tool_calls else turn.finish_reason)
    if turn.usage.input_tokens or turn.usage.output_tokens:
        yield usage_chunk(turn.usage.input_tokens, turn.usage.output_tokens)


def wants_back(turn: ModelTurn, *frames: Chunk, **fields: Any) -> ModelTurn:
    """The turn with fields of its message, and of its calls in order, that the service wants back."""
    calls = (CallItem(index, frame) for index, frame in enumerate(frames))
    return replace(turn, provider=ProviderItems("chat", "", (OpaqueItem(fields), *calls)))


def _wanted_back(turn: ModelTurn) -> tuple[Chunk, dict[int, Chunk]]:
    fields: Chunk = {}
    frames: dict[int, Chunk] = {}
    for item in turn.provider.items if turn.provider is not None else ():
        if isinstance(item, OpaqueItem):
            fields |= item.item
        elif isinstance(item, CallItem):
            frames[item.index] = item.frame or {}
    return fields, frames


def _call_pieces(call: RequestedCall, index: int, frame: Chunk) -> Iterator[Chunk]:
    function = {"name": call.name, "arguments": ""}
    yield {"index": index, "id": call.id or f"call_fake_{index}", "type": "function", "function": function, **frame}
    yield from ({"index": index, "function": {"arguments": piece}} for piece in odd_pieces(call.arguments))


def streamed(turn: ModelTurn, *, interleave: bool = False, **options: Any) -> Reply:
    """A turn as a stream. `options` are fields of `Reply`."""
    return Reply(body=event_stream(chunks_of(turn, interleave=interleave)), **options)


def events(*chunks: Chunk, done: bool = True, **options: Any) -> Reply:
    """Chunks exactly as given, and by default the mark at the end. `options` are fields of `Reply`."""
    return Reply(body=event_stream(chunks, done=done), **options)


def event_stream(chunks: Iterable[Chunk], *, done: bool = True) -> bytes:
    """The body of `events`. A call of a million characters is as many chunks, so they need not be a list."""
    return reply.event_stream(chunks, done=done)
