"""Assembles the items of a Responses answer (messages, reasoning, calls) from their pieces.

Deviations of servers, and how they are read:

- Deltas with an id that changes each time (LiteLLM), or with one index for all items: a known id decides, then the
  index, then the open item of that kind.
- Deltas without the event that opens their item, or an item without deltas: its last event contains it whole.
- Interleaved deltas of two items: the text of the later one waits, so that texts are not mixed.
- An item's last event that extends its deltas: the rest is passed on. If it contradicts them, the answer is a fault,
  because the deltas were shown.
- A call with another id in the final response (vLLM): the first id counts.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

from agent_kernel.models.answer_reading import Deltas, as_text, is_object
from agent_kernel.models.base import RequestedCall, ToolCallDelta
from agent_kernel.models.provider_items import CallItem, Item, OpaqueItem, TextItem, is_storable
from agent_kernel.models.service_faults import Fault

PARTS_APART = "\n\n"

_FIELDS: dict[str, type] = {"id": str, "status": str, "phase": str, "namespace": str, "caller": dict}
"""The fields of items that are kept besides text and calls, with their types."""
_STATUSES = ("in_progress", "completed", "incomplete")

PartKind = Literal["output_text", "refusal", "summary", "thought"]


@dataclass(slots=True, eq=False)
class Part:
    """A part of an item's text."""

    item: "Output"
    kind: PartKind
    index: Any
    pieces: list[str] = field(default_factory=list)
    passed: int = 0
    """The number of pieces that were passed on."""
    apart: int = 0
    """The length of the separator before it."""
    closed: bool = False

    @property
    def text(self) -> str:
        return "".join(self.pieces)


@dataclass(slots=True, eq=False)
class Output:
    """One item of the answer."""

    kind: str
    id: str = ""
    index: Any = None
    parts: list[Part] = field(default_factory=list)
    whole: dict[str, Any] | None = None
    """The item as its last event contains it."""
    call_id: str = ""
    name: str = ""
    arguments: list[str] = field(default_factory=list)
    whole_arguments: str = ""
    spare_name: str = ""
    """The name from an event without an id, used if no other arrives."""
    begun: bool = False

    @property
    def done(self) -> bool:
        return self.whole is not None

    @property
    def call_arguments(self) -> str:
        return self.whole_arguments or "".join(self.arguments).strip() or "{}"


class Lane:
    """One stream of shown text: the answer, or the reasoning. Its parts follow in the order in which they began; only
    the first open one is passed on as it arrives."""

    def __init__(self, deltas: Deltas, kind: Literal["text", "reasoning"]) -> None:
        self._deltas = deltas
        self._kind = kind
        self._parts: list[Part] = []
        self._at = 0
        self._last: Part | None = None

    def open(self, item: Output, kind: PartKind, index: Any) -> Part:
        self._deltas.size.begin_part()
        part = Part(item, kind, index)
        item.parts.append(part)
        self._parts.append(part)
        return part

    def add(self, part: Part, text: str) -> None:
        if text and not part.closed:
            part.pieces.append(self._deltas.size.take(text))
            self._pass_on()

    def close(self, part: Part, whole: Any) -> None:
        """End a part; `whole` is its final text. Raises `Fault` if it contradicts the pieces."""
        if part.closed:
            return
        if isinstance(whole, str) and whole:
            said = part.text
            if whole.startswith(said):
                part.pieces += [whole[len(said) :]] if len(whole) > len(said) else []
            elif whole.strip() != said.strip():
                self.refuse()
        part.closed = True
        self._pass_on()

    def refuse(self) -> None:
        """Raise `Fault` because pieces and whole differ; for reasoning, on which nothing depends, do nothing."""
        if self._kind == "text":
            raise Fault("answer", "the pieces of the answer do not fit the whole", retry=True)

    def close_all(self) -> None:
        for part in self._parts[self._at :]:
            self.close(part, None)

    def _pass_on(self) -> None:
        while self._at < len(self._parts):
            part = self._parts[self._at]
            for piece in part.pieces[part.passed :]:
                if part is not self._last:
                    self._begin(part)
                self._deltas.add_text(self._kind, piece)
            part.passed = len(part.pieces)
            if not part.closed:
                return
            self._at += 1

    def _begin(self, part: Part) -> None:
        last, self._last = self._last, part
        if last is None or (last.item is part.item and last.kind == part.kind == "output_text"):
            return
        part.apart = len(PARTS_APART)
        self._deltas.add_text(self._kind, PARTS_APART)


class Outputs:
    """All items of an answer, and the deltas that they yield."""

    def __init__(self, deltas: Deltas) -> None:
        self._deltas = deltas
        self.items: list[Output] = []
        self.calls: list[Output] = []
        self.text = Lane(deltas, "text")
        self.reasoning = Lane(deltas, "reasoning")

    def __bool__(self) -> bool:
        return any(item.kind in ("message", "function_call") for item in self.items)

    @property
    def refusal(self) -> str:
        """The words in which the model refused, if it did."""
        return " ".join(part.text for item in self.items for part in item.parts if part.kind == "refusal")

    def find(self, kind: str, item_id: Any, index: Any) -> Output:
        """The item that an event belongs to; a new one if it matches none."""
        same = [item for item in self.items if item.kind == kind]
        if item_id:
            for item in same:
                if item.id == item_id:
                    return item
        still_open = [item for item in same if not item.done]
        for item in reversed(still_open):
            if index is not None and item.index == index:
                return item
        if still_open and (index is None or still_open[-1].index is None):
            return still_open[-1]
        return self._new(kind, item_id, index)

    def begin(self, raw: dict[str, Any], index: Any) -> None:
        """Open an item. Some servers repeat this event, others send it after the first delta."""
        kind, item_id, call_id = as_text(raw.get("type")), as_text(raw.get("id")), as_text(raw.get("call_id"))
        for item in self.items:
            same_place = item.index == index and not item.done and (not item.begun or item.call_id == call_id != "")
            if item.kind == kind and ((item_id and item.id == item_id) or (same_place and not (item_id and item.id))):
                break
        else:
            item = self._new(kind, item_id, index)
        item.begun = True
        item.id = item.id or item_id
        if kind == "function_call":
            self.name_call(item, raw)

    def name_call(self, item: Output, raw: dict[str, Any]) -> None:
        """Set a call's name, upon which its card is shown."""
        item.call_id = item.call_id or as_text(raw.get("call_id"))
        if item.name or not (name := as_text(raw.get("name"))):
            return
        item.name = name
        self._deltas.add(ToolCallDelta(self.calls.index(item), name, item.call_id))

    def part(self, lane: Lane, item: Output, kind: PartKind, index: Any) -> Part:
        for part in item.parts:
            if part.kind == kind and part.index == index:
                return part
        return lane.open(item, kind, index)

    def end(self, raw: dict[str, Any], index: Any) -> None:
        """End an item with its complete form. A repeated event is ignored. Raises `Fault`."""
        item = self.find(as_text(raw.get("type")), raw.get("id"), index)
        if not item.done:
            self._settle(item, raw)

    def reconcile(self, output: list[Any]) -> None:
        """Take from the final response what no earlier event contained."""
        whole = [raw for raw in output if isinstance(raw, dict)]
        known = {item.id: item for item in self.items if item.id}
        matched = [known.get(as_text(raw.get("id"))) for raw in whole]
        others = [item for item in self.items if item not in matched]
        for position, (raw, item) in enumerate(zip(whole, matched, strict=True)):
            found = item or next((one for one in others if one.kind == raw.get("type")), None)
            if found in others:
                others.remove(found)
            found = found or self._new(as_text(raw.get("type")), raw.get("id"), position)
            if not found.done:
                self._settle(found, raw)

    def close(self) -> None:
        for call in self.calls:
            self.name_call(call, {"name": call.spare_name})
        self.text.close_all()
        self.reasoning.close_all()

    def unfinished(self) -> str | None:
        """A description of an item that was begun and not ended, or `None`."""
        for item in self.items:
            if item.kind == "function_call" and not (item.done or is_object(item.call_arguments)):
                return f"a call of {item.name}" if item.name else "a call"
            if item.kind != "function_call" and not (item.done or all(part.closed for part in item.parts)):
                return "the answer"
        return None

    def broken_call(self) -> str | None:
        """The name of a call that was not ended and whose arguments are incomplete JSON, or `None`."""
        for item in self.calls:
            ended = item.done and item.whole is not None and item.whole.get("status") != "incomplete"
            if not (ended or is_object(item.call_arguments)):
                return item.name
        return None

    def requested(self) -> tuple[RequestedCall, ...]:
        return tuple(RequestedCall(item.call_id, item.name, item.call_arguments) for item in self.calls)

    def provider_items(self, content: str) -> tuple[Item, ...]:
        """The items to send back with the turn; none if the message contains everything."""
        if not any(_is_telling(item) for item in self.items) and sum(item.kind == "message" for item in self.items) < 2:
            return ()
        indices = [item.index for item in self.items]
        orders = [self.items]
        if all(isinstance(index, int) for index in indices) and len(set(indices)) == len(indices):
            orders.insert(0, sorted(self.items, key=lambda item: int(item.index)))
        for order in orders:
            if "".join(_text_of(item) for item in order) == content:
                return tuple(self._kept(order))
        return ()  # interleaved texts, whose order can't be rebuilt

    def _kept(self, order: list[Output]) -> Iterator[Item]:
        for item in order:
            match item.kind:
                case "message":
                    if text := _text_of(item):
                        yield TextItem(len(text), _message_frame(item))
                case "function_call":
                    yield CallItem(self.calls.index(item), _call_frame(item))
                case _:
                    if (kept := _opaque(item)) is not None:
                        yield OpaqueItem(kept)

    def _new(self, kind: str, item_id: Any, index: Any) -> Output:
        self._deltas.size.begin_part()
        item = Output(kind, as_text(item_id), index)
        self.items.append(item)
        if kind == "function_call":
            self.calls.append(item)
        return item

    def _settle(self, item: Output, raw: dict[str, Any]) -> None:
        item.whole = raw
        item.id = item.id or as_text(raw.get("id"))
        match item.kind:
            case "function_call":
                if item.name and as_text(raw.get("name")) not in ("", item.name):
                    raise Fault("answer", "the server mixed up two calls", retry=True)
                self.name_call(item, raw)
                item.whole_arguments = arguments_of(raw.get("arguments")) or item.whole_arguments
            case "message":
                _settle_parts(self.text, item, _message_texts(raw))
            case "reasoning":
                _settle_parts(self.reasoning, item, _reasoning_texts(raw, item))


def arguments_of(value: Any) -> str:
    """A call's arguments as text, which some servers send as an object; blank if there are none."""
    if isinstance(value, str):
        return value.strip()
    return "" if value is None else json.dumps(value, ensure_ascii=False).encode("utf-8", "replace").decode()


def _settle_parts(lane: Lane, item: Output, texts: list[tuple[PartKind, str]]) -> None:
    """Complete an item's parts from its final texts. Raises `Fault` if they contradict."""
    said = [part for part in item.parts if part.pieces]
    if len(said) > len(texts):  # one part was sent under several indexes
        whole = "".join(text for _, text in texts)
        before = "".join(part.text for part in said[:-1])
        if whole and not whole.startswith(before):
            lane.refuse()
        lane.close(said[-1], whole[len(before) :])
    else:
        for place, (kind, text) in enumerate(texts):
            lane.close(said[place] if place < len(said) else lane.open(item, kind, None), text)
    for part in item.parts:
        lane.close(part, None)


def _message_texts(raw: dict[str, Any]) -> list[tuple[PartKind, str]]:
    content = raw.get("content")
    if isinstance(content, str):
        return [("output_text", content)] if content else []
    texts: list[tuple[PartKind, str]] = []
    for part in content if isinstance(content, list) else []:
        if text := as_text(part.get("text")):
            texts.append(("output_text", text))
        elif text := as_text(part.get("refusal")):
            texts.append(("refusal", text))
    return texts


def _reasoning_texts(raw: dict[str, Any], item: Output) -> list[tuple[PartKind, str]]:
    """The texts of the reasoning's summary, or of its content if there is no summary."""
    shown = item.parts[0].kind if item.parts else None
    for kind, name in (("summary", "summary"), ("thought", "content")):
        given = raw.get(name)
        parts = given if isinstance(given, list) else []
        texts = [as_text(part.get("text")) for part in parts if isinstance(part, dict)]
        if any(texts) and shown in (None, kind):
            return [("summary" if kind == "summary" else "thought", text) for text in texts if text]
    return []


def _text_of(item: Output) -> str:
    """This message's share of the turn's content, separators included."""
    if item.kind != "message":
        return ""
    return "".join(PARTS_APART[: part.apart] + part.text for part in item.parts if part.pieces)


def _is_telling(item: Output) -> bool:
    """Whether the item contains more than the message does."""
    match item.kind:
        case "message":
            return _message_frame(item) is not None and _is_special(item.whole or {})
        case "function_call":
            return any((item.whole or {}).get(name) for name in ("namespace", "caller"))
        case _:
            return _opaque(item) is not None


def _is_special(raw: dict[str, Any]) -> bool:
    content = raw.get("content")
    parts = content if isinstance(content, list) else []
    return bool(raw.get("phase")) or any(part.get("annotations") for part in parts)


def _message_frame(item: Output) -> dict[str, Any] | None:
    """The item with its texts replaced by their offsets in the content."""
    parts = [part for part in item.parts if part.pieces]
    pieces = item.whole.get("content") if item.whole is not None else None
    if item.whole is None or not isinstance(pieces, list) or not as_text(item.whole.get("id")):
        return None
    if [text for _, text in _message_texts(item.whole)] != [part.text for part in parts]:
        return None
    content: list[dict[str, Any]] = []
    at = 0
    for raw in pieces:
        if not as_text(raw.get("text")):
            continue
        part = parts[len(content)]
        start, at = at + part.apart, at + part.apart + len(part.text)
        cited = raw.get("annotations")
        annotations = [one for one in cited if isinstance(one, dict)] if isinstance(cited, list) else []
        content.append({"type": "output_text", "annotations": annotations, "text": [start, at]})
    frame = {"id": item.whole["id"], "type": "message", "role": "assistant", "status": "completed"}
    frame |= _own(item.whole, "status", "phase") | {"content": content}
    return frame if content and is_storable(frame) else None


def _call_frame(item: Output) -> dict[str, Any] | None:
    """The item without what the message contains of the call."""
    frame = _own(item.whole or {}, "id", "status", "namespace", "caller")
    return frame if frame and is_storable(frame) else None


def _opaque(item: Output) -> dict[str, Any] | None:
    """The item as it is sent back; `None` for one that services would refuse."""
    if item.whole is None or not (item.kind and as_text(item.whole.get("id"))):
        return None
    raw = {name: value for name, value in item.whole.items() if value is not None}  # services send null and refuse it
    if item.kind == "reasoning":
        raw = {"summary": []} | raw
        if not _are_texts(raw["summary"], "summary_text"):
            return None
        if not _are_texts(raw.get("content", []), "reasoning_text"):
            return None
        # Without its content it only refers to something that the service did not store.
        if not (as_text(raw.get("encrypted_content")) or ("encrypted_content" not in raw and raw.get("content"))):
            return None
    return raw if is_storable(raw) else None


def _are_texts(parts: Any, kind: str) -> bool:
    return isinstance(parts, list) and all(
        isinstance(part, dict) and part.get("type") == kind and isinstance(part.get("text"), str) for part in parts
    )


def _own(raw: dict[str, Any], *names: str) -> dict[str, Any]:
    """Those of the known fields that are set."""
    kept = {name: raw[name] for name in names if raw.get(name) and isinstance(raw[name], _FIELDS[name])}
    if kept.get("status") not in _STATUSES:
        kept.pop("status", None)
    return kept
