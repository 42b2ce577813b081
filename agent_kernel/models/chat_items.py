"""What services of Chat Completions want back with an answer, collected from its deltas.

- `reasoning_content` (DeepSeek, Kimi, llama.cpp) or `reasoning` (vLLM, Ollama): the text, under the name under which it
  came. An empty `reasoning_content` goes back too: DeepSeek refuses an answer without the field, whatever is in it.
- `reasoning_details` (OpenRouter, MiniMax): a list, whose entries arrive in pieces that have the same `index`.
- `thinking_blocks` (Claude behind LiteLLM): a list, whose entries arrive in pieces without an index; the last piece of
  an entry has its signature.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from agent_kernel.models.answer_reading import SizeLimit
from agent_kernel.models.provider_items import OpaqueItem, is_storable

REASONING = ("reasoning_content", "reasoning", "reasoning_details", "thinking_blocks")
"""The fields of an assistant's message."""
_IN_PIECES = ("text", "summary", "data", "thinking")
"""The fields of an entry of the list whose pieces are joined; of each other field the last value counts."""


@dataclass(slots=True)
class _Detail:
    """An entry of the list."""

    fields: dict[str, Any] = field(default_factory=dict)
    pieces: dict[str, list[str]] = field(default_factory=dict)

    @property
    def is_signed(self) -> bool:
        """Whether a block of Claude's is complete: without a signature it would be refused."""
        return bool(self.fields.get("signature") or self.fields.get("type") == "redacted_thinking")

    @property
    def whole(self) -> dict[str, Any]:
        return self.fields | {name: "".join(pieces) for name, pieces in self.pieces.items()}


class ReasoningFields:
    """The fields of one answer. Whatever has another type than the documented one is passed over."""

    def __init__(self, size: SizeLimit) -> None:
        self._size = size
        self._texts: dict[str, list[str]] = {}
        self._details: list[_Detail] = []
        self._open: dict[tuple[str, str], _Detail] = {}
        """The last entry of each index and type (Gemini's text and signature have one index), and of each index, for
        pieces without a type."""
        self._blocks: list[_Detail] = []

    def add(self, delta: dict[str, Any]) -> None:
        for name in ("reasoning_content", "reasoning"):
            if isinstance(text := delta.get(name), str):
                self._texts.setdefault(name, []).append(text)  # its size is counted where it is shown
                if text:
                    break
        for place, piece in _objects(delta.get("reasoning_details")):
            self._add_detail(piece, place)
        for _, piece in _objects(delta.get("thinking_blocks")):
            self._add_block(piece)

    def ids(self) -> set[str]:
        """The ids of the list's entries. Gemini's signatures have the ids of the calls that they sign."""
        return {str(detail.fields["id"]) for detail in self._details if detail.fields.get("id")}

    def items(self) -> Iterator[OpaqueItem]:
        """The fields that go back. `reasoning` goes alone: beside another field it has the same text once more."""
        found: dict[str, Any] = {name: "".join(pieces) for name, pieces in self._texts.items()}
        if self._details:
            found["reasoning_details"] = [detail.whole for detail in self._details]
        if blocks := [block.whole for block in self._blocks if block.is_signed]:
            found["thinking_blocks"] = blocks
        reasoning = found.pop("reasoning", "")
        if reasoning and not any(found.values()):
            found["reasoning"] = reasoning
        for name, value in found.items():
            if is_storable(value):
                yield OpaqueItem({name: value})

    def _add_detail(self, piece: dict[str, Any], place: int) -> None:
        index, kind = str(piece.get("index", f"at {place}")), str(piece.get("type") or "")
        detail = self._open.get((index, kind))
        own = piece.get("id")
        if detail is None or (own and detail.fields.get("id") not in (None, "", own)):
            detail = self._open[index, kind] = self._open[index, ""] = self._begin(self._details)
        self._join(detail, piece)

    def _add_block(self, piece: dict[str, Any]) -> None:
        last = self._blocks[-1] if self._blocks else None
        if last is None or last.is_signed or piece.get("type") == "redacted_thinking":
            last = self._begin(self._blocks)
        self._join(last, piece)

    def _begin(self, entries: list[_Detail]) -> _Detail:
        self._size.begin_part()
        entries.append(_Detail())
        return entries[-1]

    def _join(self, detail: _Detail, piece: dict[str, Any]) -> None:
        for name, value in piece.items():
            if name in _IN_PIECES and isinstance(value, str):
                detail.fields.setdefault(name, "")  # keeps the order of the fields
                detail.pieces.setdefault(name, []).append(self._size.take(value))
            elif name not in detail.fields or (value not in (None, "", detail.fields[name])):
                self._size.take_size(len(name) + len(str(value)))
                detail.fields[name] = value


def _objects(values: Any) -> Iterator[tuple[int, dict[str, Any]]]:
    """Those of a list's values that are objects, with their places."""
    for place, value in enumerate(values if isinstance(values, list) else ()):
        if isinstance(value, dict):
            yield place, value
