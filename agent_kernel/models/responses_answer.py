"""Reads the answers of the Responses API: events about items (messages, reasoning, calls), and at the end the response
as a whole.

Deviations of servers, and how they are read:

- Deltas with an id that changes each time (LiteLLM), or with one index for all items: a known id decides, then the
  index, then the open item of that kind.
- Deltas without the event that opens their item, or an item without deltas: its last event contains it whole.
- Interleaved deltas of two items: the text of the later one waits, so that texts are not mixed.
- An item's last event that extends its deltas: the rest is passed on. If it contradicts them, the answer is a fault,
  because the deltas were shown.
- Sequence numbers that do not count the events (all alike, or from 0 again): they say nothing.
- A call with another id in the final response (vLLM): the first id counts.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

from agent_kernel.models.answer_reading import (
    CONNECTION_ENDED,
    LENGTH_REACHED,
    SERVER_STOPPED,
    AnswerReader,
    Deltas,
    EventNumbers,
    arguments_text,
    as_text,
    cut_off,
    is_object,
)
from agent_kernel.models.base import ModelTurn, RequestedCall, TokenUsage, ToolCallDelta
from agent_kernel.models.no_answer import filtered, refused
from agent_kernel.models.provider_items import CallItem, Item, OpaqueItem, ProviderItems, TextItem, is_storable
from agent_kernel.models.service_faults import Fault, error_object_fault
from agent_kernel.models.usage import openai_usage
from agent_kernel.protocol.vocabulary import FinishReason

PARTS_APART = "\n\n"
_REASONING = {
    "response.reasoning_summary_text": "summary",
    "response.reasoning_text": "content",
    "response.reasoning": "content",
}
_FIELDS: dict[str, type] = {"id": str, "status": str, "phase": str, "namespace": str, "caller": dict}
"""The fields of items that are kept besides text and calls, with their types."""
_STATUSES = ("in_progress", "completed", "incomplete")
_LAST = ("response.completed", "response.incomplete", "response.failed", "response.done", "response.cancelled")


@dataclass(slots=True, eq=False)
class _Output:
    """One item of the answer."""

    kind: str
    id: str = ""
    index: Any = None
    pieces: list[str] = field(default_factory=list)
    """Of the text that is shown."""
    passed: int = 0
    """The number of pieces that were passed on."""
    parts: set[tuple[str, Any]] = field(default_factory=set)
    """The kinds and indices of the parts of the text that have come."""
    part: tuple[str, Any] | None = None
    """The one that came last."""
    part_from: int = 0
    """Where its pieces begin."""
    apart: int = 0
    """The length of the separator before the text."""
    refusal: str = ""
    ended: bool = False
    """Whether the last part is whole."""
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
    def lane(self) -> Literal["text", "reasoning"]:
        return "reasoning" if self.kind == "reasoning" else "text"

    @property
    def text(self) -> str:
        return "".join(self.pieces)

    @property
    def call_arguments(self) -> str:
        return self.whole_arguments.strip() or "".join(self.arguments).strip() or "{}"


class _Outputs:
    """All items of an answer, and the deltas that they yield."""

    def __init__(self, deltas: Deltas) -> None:
        self._deltas = deltas
        self.items: list[_Output] = []
        self.calls: list[_Output] = []
        self._waiting: dict[str, deque[_Output]] = {"text": deque(), "reasoning": deque()}
        """The items with text from the first that is open on: of the answer, and of the reasoning."""
        self._begun: set[str] = set()
        """Where text was passed on."""

    def find(self, kind: str, event: dict[str, Any]) -> _Output:
        """The item that an event belongs to; a new one if it matches none."""
        item_id, index = event.get("item_id"), event.get("output_index")
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
            self._name_call(item, raw)

    def write(self, item: _Output, part: tuple[str, Any], text: str, *, whole: bool) -> None:
        """Take a piece of a part of the item's text, or the `whole` part at its end. Raises `Fault`."""
        if item.done or (item.kind == "reasoning" and item.part is not None and item.part[0] != part[0]):
            return  # another form of the same reasoning
        if whole and item.part != part and part in item.parts:
            return  # its end came behind the beginning of the next one
        item.parts.add(part)
        if item.part != part:
            if item.kind == "reasoning" and item.pieces:
                self._show(item, PARTS_APART)
            item.part, item.part_from = part, len(item.pieces)
        self._show(item, _rest(item, "".join(item.pieces[item.part_from :]), text) if whole else text)
        item.ended = whole

    def end(self, raw: dict[str, Any], index: Any) -> None:
        """End an item with its complete form. A repeated event is ignored. Raises `Fault`."""
        item = self.find(as_text(raw.get("type")), {"item_id": raw.get("id"), "output_index": index})
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
            self._name_call(call, {"name": call.spare_name})
        self._pass_on("text", every=True)
        self._pass_on("reasoning", every=True)

    def unfinished(self) -> Fault | None:
        """The fault if an item was begun and not ended."""
        for item in self.items:
            if item.kind == "function_call" and not (item.done or is_object(item.call_arguments)):
                return cut_off(SERVER_STOPPED, item.name)
            if item.kind != "function_call" and not (item.done or item.ended or not item.pieces):
                return cut_off(SERVER_STOPPED, None)
        return None

    def broken_call(self) -> str | None:
        """The name of a call that was not ended and whose arguments are incomplete JSON, or `None`."""
        for item in self.calls:
            ended = item.whole is not None and item.whole.get("status") != "incomplete"
            if not (ended or is_object(item.call_arguments)):
                return item.name
        return None

    def provider_items(self, content: str) -> tuple[Item, ...]:
        """The items to send back with the turn; none if the message contains everything."""
        if not any(map(_is_telling, self.items)) and sum(item.kind == "message" for item in self.items) < 2:
            return ()
        indices = [item.index for item in self.items]
        orders = [self.items]
        if all(isinstance(index, int) for index in indices) and len(set(indices)) == len(indices):
            orders.insert(0, sorted(self.items, key=lambda item: int(item.index)))
        for order in orders:
            if "".join(map(_share, order)) == content:
                return tuple(self._kept(order))
        return ()

    def _kept(self, order: list[_Output]) -> Iterator[Item]:
        for item in order:
            match item.kind:
                case "message":
                    if text := _share(item):
                        yield TextItem(len(text), _message_frame(item))
                case "function_call":
                    yield CallItem(self.calls.index(item), _call_frame(item))
                case _:
                    if (kept := _opaque(item)) is not None:
                        yield OpaqueItem(kept)

    def _new(self, kind: str, item_id: Any, index: Any) -> _Output:
        self._deltas.size.begin_part()
        item = _Output(kind, as_text(item_id), index)
        self.items.append(item)
        if kind == "function_call":
            self.calls.append(item)
        return item

    def _name_call(self, item: _Output, raw: dict[str, Any]) -> None:
        """Set a call's name, upon which its card is shown."""
        item.call_id = item.call_id or as_text(raw.get("call_id"))
        if item.name or not (name := as_text(raw.get("name"))):
            return
        item.name = name
        self._deltas.add(ToolCallDelta(self.calls.index(item), name, item.call_id))

    def _show(self, item: _Output, text: str) -> None:
        if not text:
            return
        waiting = self._waiting[item.lane]
        if not item.pieces:
            waiting.append(item)
        if item is not waiting[0]:
            self._deltas.size.take(text)
        item.pieces.append(text)
        self._pass_on(item.lane)

    def _pass_on(self, lane: Literal["text", "reasoning"], *, every: bool = False) -> None:
        """Pass on the text of the first open item; that of `every` one, if none is open any more."""
        waiting = self._waiting[lane]
        while waiting:
            item = waiting[0]
            if not item.passed and lane in self._begun:
                item.apart = len(PARTS_APART)
                self._deltas.add_text(lane, PARTS_APART)
            self._begun.add(lane)
            for piece in item.pieces[item.passed :]:
                self._deltas.add_text(lane, piece)
            item.passed = len(item.pieces)
            if not (item.done or every):
                return
            waiting.popleft()

    def _settle(self, item: _Output, raw: dict[str, Any]) -> None:
        item.id = item.id or as_text(raw.get("id"))
        match item.kind:
            case "function_call":
                if item.name and as_text(raw.get("name")) not in ("", item.name):
                    raise Fault("answer", "the server mixed up two calls", retry=True)
                self._name_call(item, raw)
                item.whole_arguments = arguments_text(raw.get("arguments")) or item.whole_arguments
            case "message":
                item.refusal = "".join(_texts(raw.get("content"), "refusal")) or item.refusal
                self._show(item, _rest(item, item.text, "".join(_texts(raw.get("content")))))
            case "reasoning":
                forms = (item.part[0],) if item.part is not None else ("summary", "content")
                texts = next(filter(None, (_texts(raw.get(form)) for form in forms)), [])
                self._show(item, _rest(item, item.text, PARTS_APART.join(texts)))
        item.whole = raw
        self._pass_on(item.lane)


class ResponsesReader(AnswerReader):
    """Events of types that it does not know say nothing."""

    def __init__(self, origin: str) -> None:
        super().__init__()
        self._origin = origin
        self._outputs = _Outputs(self._deltas)
        self._numbers = EventNumbers()
        self._ended = False
        self._finish: FinishReason = "stop"
        self._usage = TokenUsage()

    @property
    def whole(self) -> bool:
        return self._ended

    def _add_event(self, event: dict[str, Any]) -> None:
        kind = event.get("type")
        if kind == "error" or event.get("object") == "error" or (event.get("error") and "output" not in event):
            raise error_object_fault(event.get("error") or event)
        if not self._body.streamed:
            if "output" not in event:
                raise Fault("address", "it answered with JSON that holds no output")
            self._take_last({"response": event})
        elif kind in _LAST:
            self._take_last(event)
        elif isinstance(kind, str) and not self._numbers.has(event.get("sequence_number"), event):
            self._take_event(kind, event)
        self._seen = self._ended or bool(self._outputs.items)

    def _take_event(self, kind: str, event: dict[str, Any]) -> None:
        outputs = self._outputs
        subject, _, what = kind.rpartition(".")
        if kind == "response.output_item.added":
            outputs.begin(event["item"], event.get("output_index"))
        elif kind == "response.output_item.done":
            outputs.end(event["item"], event.get("output_index"))
        elif what not in ("delta", "done"):
            return
        elif subject == "response.function_call_arguments":
            self._take_arguments(event, last=what == "done")
        elif subject == "response.refusal":
            item = outputs.find("message", event)
            item.refusal = as_text(event.get("refusal")) or item.refusal + self._deltas.size.take(event["delta"])
        elif subject == "response.output_text":
            part = ("text", event.get("content_index"))
            self._write("message", part, event, last=what == "done")
        elif subject in _REASONING:
            form = _REASONING[subject]
            part = (form, event.get(f"{form}_index"))
            self._write("reasoning", part, event, last=what == "done")

    def _write(self, kind: str, part: tuple[str, Any], event: dict[str, Any], *, last: bool) -> None:
        text = as_text(event.get("text") if last else event["delta"])
        self._outputs.write(self._outputs.find(kind, event), part, text, whole=last)

    def _take_arguments(self, event: dict[str, Any], *, last: bool) -> None:
        call = self._outputs.find("function_call", event)
        if last:
            call.spare_name = as_text(event.get("name"))
            call.whole_arguments = arguments_text(event.get("arguments"))
        elif not (call.done or call.whole_arguments):
            call.arguments.append(self._deltas.size.take(as_text(event["delta"])))

    def _take_last(self, event: dict[str, Any]) -> None:
        response = event.get("response")
        if not isinstance(response, dict):
            response = {}
        status = response.get("status") or str(event.get("type", "")).rpartition(".")[2]
        if status == "failed" or response.get("error"):
            raise error_object_fault(response.get("error") or response)
        if status in ("cancelled", "queued", "in_progress"):
            raise Fault("answer", f"the server ended the answer as {status}", retry=True)
        self._usage = openai_usage(response.get("usage"))
        if status == "incomplete":
            self._finish = _incomplete(response.get("incomplete_details"))
        if isinstance(output := response.get("output"), list):
            self._outputs.reconcile(output)
        self._ended = self.done = True

    def _end(self) -> None:
        outputs = self._outputs
        if not self._ended:
            said_or_asked = any(item.kind in ("message", "function_call") for item in outputs.items)
            if not self.done:
                raise cut_off(CONNECTION_ENDED, outputs.broken_call())
            if fault := outputs.unfinished() or (None if said_or_asked else cut_off(SERVER_STOPPED, None)):
                raise fault
        if (broken := outputs.broken_call()) is not None:
            raise cut_off(LENGTH_REACHED if self._finish == "length" else SERVER_STOPPED, broken)
        outputs.close()

    def _turn(self) -> ModelTurn:
        refusal = " ".join(item.refusal for item in self._outputs.items if item.refusal)
        content = "" if refusal else self._deltas.content
        items = () if refusal else self._outputs.provider_items(content)
        return ModelTurn(
            content=content,
            reasoning=self._deltas.reasoning,
            tool_calls=tuple(
                RequestedCall(item.call_id, item.name, item.call_arguments) for item in self._outputs.calls
            ),
            finish_reason=self._finish,
            failure=refused(refusal) if refusal else filtered() if self._finish == "content_filter" else "",
            usage=self._usage,
            provider=ProviderItems("responses", self._origin, items) if items else None,
        )


def _incomplete(details: Any) -> FinishReason:
    reason = details.get("reason") if isinstance(details, dict) else None
    match reason:
        case "content_filter":
            return "content_filter"
        case "steered":
            return "stop"
        case _:
            return "length"


def _rest(item: _Output, said: str, whole: str) -> str:
    """What a text has beyond its pieces. Raises `Fault` if it contradicts them; nothing depends on reasoning."""
    if whole.startswith(said):
        return whole[len(said) :]
    if item.kind == "message" and whole and whole.strip() != said.strip():
        raise Fault("answer", "the pieces of the answer do not fit the whole", retry=True)
    return ""


def _texts(parts: Any, name: str = "text") -> list[str]:
    """The texts of an item's parts; of a plain text, which some servers send instead, itself."""
    if isinstance(parts, str):
        return [parts] if parts and name == "text" else []
    return [text for part in _objects(parts) if (text := as_text(part.get(name)))]


def _objects(values: Any) -> list[dict[str, Any]]:
    """Those of a list's values that are objects."""
    return [value for value in values if isinstance(value, dict)] if isinstance(values, list) else []


def _share(item: _Output) -> str:
    """This message's share of the turn's content, its separator included."""
    return PARTS_APART[: item.apart] + item.text if item.kind == "message" else ""


def _is_telling(item: _Output) -> bool:
    """Whether the item contains more than the message does."""
    whole = item.whole or {}
    match item.kind:
        case "message":
            if _message_frame(item) is None:
                return False
            return bool(whole.get("phase")) or any(part.get("annotations") for part in _objects(whole["content"]))
        case "function_call":
            return any(whole.get(name) for name in ("namespace", "caller"))
        case _:
            return _opaque(item) is not None


def _message_frame(item: _Output) -> dict[str, Any] | None:
    """The item with its texts replaced by their offsets in the content."""
    whole = item.whole or {}
    parts = whole.get("content")
    if not isinstance(parts, list) or not as_text(whole.get("id")) or "".join(_texts(parts)) != item.text:
        return None
    content: list[dict[str, Any]] = []
    at = item.apart
    for part in _objects(parts):
        if text := as_text(part.get("text")):
            annotations = _objects(part.get("annotations"))
            content.append({"type": "output_text", "annotations": annotations, "text": [at, at + len(text)]})
            at += len(text)
    frame = {"id": whole["id"], "type": "message", "role": "assistant", "status": "completed"}
    frame |= _own(whole, "status", "phase") | {"content": content}
    return frame if content and is_storable(frame) else None


def _call_frame(item: _Output) -> dict[str, Any] | None:
    """The item without what the message contains of the call."""
    frame = _own(item.whole or {}, "id", "status", "namespace", "caller")
    return frame if frame and is_storable(frame) else None


def _opaque(item: _Output) -> dict[str, Any] | None:
    """The item as it is sent back; `None` for one that services would refuse."""
    if item.whole is None or not (item.kind and as_text(item.whole.get("id"))):
        return None
    raw = {name: value for name, value in item.whole.items() if value is not None}  # services send null and refuse it
    if item.kind == "reasoning":
        raw = {"summary": []} | raw
        if not (_are_texts(raw["summary"], "summary_text") and _are_texts(raw.get("content", []), "reasoning_text")):
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
