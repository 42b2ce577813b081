"""Reads the answers of Anthropic's Messages API."""

import json
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any

from agent_kernel.models.answer_reading import AnswerReader, as_text, cut_off, is_object
from agent_kernel.models.base import ModelTurn, RequestedCall, TokenUsage, ToolCallDelta
from agent_kernel.models.no_answer import refused
from agent_kernel.models.provider_items import CallItem, Item, OpaqueItem, ProviderItems, TextItem, is_storable
from agent_kernel.models.service_faults import Fault, error_object_fault
from agent_kernel.models.usage import is_count, reported_cost, token_usage
from agent_kernel.protocol.vocabulary import FinishReason

_LENGTH = frozenset({"max_tokens", "model_context_window_exceeded"})


@dataclass(slots=True)
class _Block:
    """A content block that is being written."""

    kind: str
    start: dict[str, Any]
    ended: bool = False
    text: list[str] = field(default_factory=list)
    """Pieces of text or thinking."""
    json: list[str] = field(default_factory=list)
    """Pieces of a call's arguments."""
    signature: list[str] = field(default_factory=list)

    @property
    def arguments(self) -> str:
        """The arguments as JSON text. Missing arguments become `{}`, which is what servers mean."""
        return "".join(self.json).strip() or "{}"

    @property
    def complete(self) -> bool:
        """Whether the call's arguments are a complete JSON object."""
        return is_object("".join(self.json))


class MessagesReader(AnswerReader):
    def __init__(self, origin: str) -> None:
        super().__init__()
        self._origin = origin
        self._stop: str | None = None
        self._explanation = ""
        self._usage: dict[str, Any] = {}
        self._cost: Decimal | None = None
        self._blocks: list[_Block] = []
        self._open: dict[object, _Block] = {}

    @property
    def whole(self) -> bool:
        return self.done or (self._stop is not None and not self._open)

    def _add_event(self, event: dict[str, Any]) -> None:
        if event.get("type") == "error" or event.get("error"):
            raise error_object_fault(event.get("error") or event)
        match event.get("type"):
            case "message_start":
                self._seen = True
                self._count(event["message"].get("usage"))
            case "content_block_start":
                self._start_block(event)
            case "content_block_delta":
                self._add_delta(self._open[event.get("index")], event["delta"])
            case "content_block_stop":
                self._end_block(event)
            case "message_delta":
                self._seen = True
                self._count(event.get("usage"))
                self._take_stop(event["delta"])
            case "message_stop":
                self.done = self._seen
            case _ if "choices" in event:
                raise Fault("address", "it answered in another format")
            case _:
                pass  # a ping, or what later versions add

    def _take_stop(self, fields: dict[str, Any]) -> None:
        self._stop = as_text(fields.get("stop_reason")) or self._stop
        details = fields.get("stop_details")
        if details:
            self._explanation = str(details.get("explanation") or details.get("category") or "")

    def _count(self, usage: dict[str, Any] | None) -> None:
        """Take token counts. They only grow, and some servers later omit or zero what they sent before."""
        counted = dict(usage) if isinstance(usage, dict) else {}
        details = counted.get("output_tokens_details")
        counted["thinking_tokens"] = details.get("thinking_tokens") if isinstance(details, dict) else None
        self._usage |= {name: value for name in _COUNTERS if (value := counted.get(name))}
        self._cost = reported_cost(counted) if counted.get("cost") is not None else self._cost

    def _start_block(self, event: dict[str, Any]) -> None:
        self._seen = True
        start = event["content_block"]
        self._deltas.size.begin_part()
        block = _Block(str(start["type"]), start)
        self._blocks.append(block)
        self._open[event.get("index")] = block
        match block.kind:
            case "text":
                self._add_text(block, start.get("text"))
            case "thinking":
                self._add_thinking(block, start.get("thinking"))
                self._add_signature(block, start.get("signature"))
            case "tool_use":
                index = sum(one.kind == "tool_use" for one in self._blocks) - 1
                self._deltas.add(ToolCallDelta(index, as_text(start.get("name")), as_text(start.get("id"))))
                if start.get("input"):
                    block.json.append(json.dumps(start["input"], ensure_ascii=False))
            case _:
                pass

    def _add_delta(self, block: _Block, delta: dict[str, Any]) -> None:
        match delta["type"]:
            case "text_delta":
                self._add_text(block, delta["text"])
            case "thinking_delta":
                self._add_thinking(block, delta["thinking"])
            case "signature_delta":
                self._add_signature(block, delta["signature"])
            case "input_json_delta":
                piece = as_text(delta["partial_json"])
                if piece:
                    block.json.append(self._deltas.size.take(piece))
            case _:
                pass  # citations, and what later versions add

    def _add_text(self, block: _Block, text: Any) -> None:
        if as_text(text):
            block.text.append(text)
            self._deltas.add_text("text", text)

    def _add_thinking(self, block: _Block, text: Any) -> None:
        if not as_text(text):
            return
        another = not block.text and any(one.kind == "thinking" and one.text for one in self._blocks)
        block.text.append(text)
        self._deltas.add_text("reasoning", f"\n\n{text}" if another else text)

    def _add_signature(self, block: _Block, signature: Any) -> None:
        if as_text(signature):
            block.signature.append(self._deltas.size.take(signature))

    def _end_block(self, event: dict[str, Any]) -> None:
        block = self._open.pop(event.get("index"), None)
        if block is not None:
            block.ended = True

    def _end(self) -> None:
        broken = self._broken_call()
        if self._stop is None and not self.done:
            raise cut_off("the connection ended", broken)
        if broken is not None:
            raise cut_off("the server stopped", broken, at_limit=self._stop in _LENGTH)

    def _broken_call(self) -> str | None:
        """The name of a call that was cut off. A call whose block has ended is as the model wrote it, except if the
        length limit ended the turn: then the last call may lack arguments that never arrived."""
        if self._stop == "refusal":
            return None
        for block in self._blocks:
            if block.kind != "tool_use" or block.complete:
                continue
            last_at_limit = self._stop in _LENGTH and block is self._blocks[-1]
            if last_at_limit or (block.json and (self._stop in _LENGTH or not block.ended)):
                return as_text(block.start.get("name"))
        return None

    def _turn(self) -> ModelTurn:
        blocks = [one for one in self._blocks if self._stop != "refusal" or one.kind != "tool_use"]
        return ModelTurn(
            content=self._deltas.content,
            reasoning=self._deltas.reasoning,
            tool_calls=tuple(
                RequestedCall(as_text(one.start.get("id")), as_text(one.start.get("name")), one.arguments)
                for one in blocks
                if one.kind == "tool_use"
            ),
            finish_reason=self._finish_reason(),
            failure=refused(self._explanation, "The model's service") if self._stop == "refusal" else "",
            usage=self._token_usage(),
            provider=_provider_items(blocks, self._origin),
        )

    def _finish_reason(self) -> FinishReason:
        if self._stop in _LENGTH:
            return "length"
        return "content_filter" if self._stop == "refusal" else "stop"

    def _token_usage(self) -> TokenUsage:
        new, cached, written, output, thinking = (self._usage.get(name, 0) for name in _COUNTERS)
        # The parts are counted separately; if one is invalid, the sum is unknown.
        whole = new + cached + written if all(map(is_count, (new, cached, written))) else None
        counted = token_usage(whole, output, cached=cached, cache_write=written, reasoning=thinking)
        return replace(counted, cost=self._cost)


_COUNTERS = (
    "input_tokens",
    "cache_read_input_tokens",
    "cache_creation_input_tokens",
    "output_tokens",
    "thinking_tokens",
)


def _provider_items(blocks: list[_Block], origin: str) -> ProviderItems | None:
    """The blocks in their order, if the order carries more than text followed by calls."""
    items: list[Item] = []
    calls = 0
    for block in blocks:
        if block.kind == "text":
            items.append(TextItem(sum(map(len, block.text))))
        elif block.kind == "tool_use":
            items.append(CallItem(calls))
            calls += 1
        elif block.ended and (opaque := _opaque(block)) is not None:
            items.append(OpaqueItem(opaque))
    plain = [*(item for item in items[:1] if isinstance(item, TextItem)), *map(CallItem, range(calls))]
    return None if items == plain else ProviderItems("messages", origin, tuple(items))


def _opaque(block: _Block) -> dict[str, Any] | None:
    """The blocks that are sent back unchanged. Thinking without a signature would be refused and is dropped, as are
    blocks that the log can't store."""
    kept = block.start
    if block.kind == "thinking":
        signature = "".join(block.signature)
        kept = {"type": "thinking", "thinking": "".join(block.text), "signature": signature}
        if not signature:
            return None
    if block.kind == "redacted_thinking" and not as_text(kept.get("data")):
        return None
    if block.kind == "server_tool_use" and block.json:
        if not block.complete:
            return None
        kept = {**kept, "input": json.loads(block.arguments)}
    return kept if is_storable(kept) else None
