"""Reads the answers of the Responses API: events about items (messages, reasoning, calls), and at the end the response
as a whole. What counts of an item is its last event, or else the final response; the deltas before are shown meanwhile.

Deviations of servers, and how they are read:

- Deltas with an id that changes each time (LiteLLM), or with one index for all items: a known id decides, then the
  index, then the open item of that kind.
- Deltas without the event that opens their item, or an item without deltas: its last event contains it whole.
- An answer that extends its deltas: the rest is passed on. If it contradicts them, that is a fault, because they were
  shown.
- A call with another id in the final response (vLLM): the first id counts.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from agent_kernel.models.answer_reading import AnswerReader, arguments_text, as_text, cut_off, is_object
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
_TYPE = re.compile(r"[a-z][a-z_]{5,}")
"""The names of types of items, those to come among them: `reasoning`, `mcp_call`."""
_STATUSES = ("in_progress", "completed", "incomplete")
_LAST = ("response.completed", "response.incomplete", "response.failed", "response.done", "response.cancelled")


@dataclass(slots=True, eq=False)
class _Output:
    """One item of the answer."""

    kind: str
    id: str = ""
    index: Any = None
    begun: bool = False
    """Whether the event that opens it has come."""
    pieces: list[str] = field(default_factory=list)
    """The deltas of its text, or of a call's arguments."""
    form: str = ""
    """Of reasoning: `summary` or `content`."""
    refusal: str = ""
    whole: dict[str, Any] = field(default_factory=dict)
    """The item as its last event contains it, or the final response; empty until then."""
    call_id: str = ""
    name: str = ""
    whole_arguments: str = ""

    @property
    def text(self) -> str:
        return "".join(_texts(self.whole.get("content"))) or "".join(self.pieces)

    @property
    def arguments(self) -> str:
        return self.whole_arguments.strip() or "".join(self.pieces).strip() or "{}"


class ResponsesReader(AnswerReader):
    """Events of types that it does not know say nothing."""

    def __init__(self, origin: str) -> None:
        super().__init__()
        self._origin = origin
        self._items: list[_Output] = []
        self._order: list[_Output] = self._items
        """As the final response has them."""
        self._shown: _Output | None = None
        """The message that was shown last."""
        self._thought: tuple[_Output, Any] | None = None
        """The reasoning that was shown last, and the number of its part."""
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
        elif isinstance(kind, str):
            self._take_event(kind, event)
        self._seen = self._ended or bool(self._items)

    def _take_event(self, kind: str, event: dict[str, Any]) -> None:
        subject, _, what = kind.rpartition(".")
        if kind == "response.output_item.added":
            self._begin(event["item"], event.get("output_index"))
        elif kind == "response.output_item.done":
            raw = event["item"]
            place = {"item_id": raw.get("id"), "output_index": event.get("output_index")}
            self._settle(self._find(as_text(raw.get("type")), place), raw)
        elif what not in ("delta", "done"):
            return
        elif subject == "response.function_call_arguments":
            self._take_arguments(event, last=what == "done")
        elif subject == "response.refusal":
            item = self._find("message", event)
            item.refusal = as_text(event.get("refusal")) or item.refusal + self._deltas.size.take(event["delta"])
        elif subject == "response.output_text":
            self._write(self._find("message", event), event, last=what == "done")
        elif subject in _REASONING:
            self._think(self._find("reasoning", event), _REASONING[subject], event, last=what == "done")

    def _find(self, kind: str, event: dict[str, Any]) -> _Output:
        """The item that an event belongs to; a new one if it matches none."""
        item_id, index = event.get("item_id"), event.get("output_index")
        same = [item for item in self._items if item.kind == kind]
        still_open = [item for item in same if not item.whole]
        by_id = (item for item in same if item_id and item.id == item_id)
        by_index = (item for item in reversed(still_open) if index is not None and item.index == index)
        if found := next(by_id, None) or next(by_index, None):
            return found
        if still_open and (index is None or still_open[-1].index is None):
            return still_open[-1]
        return self._new(kind, item_id, index)

    def _new(self, kind: str, item_id: Any, index: Any) -> _Output:
        self._deltas.size.begin_part()
        self._items.append(_Output(kind, as_text(item_id), index))
        return self._items[-1]

    def _begin(self, raw: dict[str, Any], index: Any) -> None:
        """Open an item. Some servers repeat this event, others send it after the first delta."""
        kind, item_id, call_id = as_text(raw.get("type")), as_text(raw.get("id")), as_text(raw.get("call_id"))
        for item in self._items:
            same_place = item.index == index and not item.whole and (not item.begun or item.call_id == call_id != "")
            if item.kind == kind and ((item_id and item.id == item_id) or (same_place and not (item_id and item.id))):
                break
        else:
            item = self._new(kind, item_id, index)
        item.begun = True
        item.id = item.id or item_id
        if kind == "function_call":
            self._name_call(item, raw)

    def _name_call(self, item: _Output, raw: dict[str, Any]) -> None:
        """Set a call's name, upon which its card is shown."""
        name = as_text(raw.get("name"))
        if item.name and name not in ("", item.name):
            raise Fault("answer", "the server mixed up two calls", retry=True)
        item.call_id = item.call_id or as_text(raw.get("call_id"))
        if name and not item.name:
            item.name = name
            self._deltas.add(ToolCallDelta(self._calls.index(item), name, item.call_id))

    def _write(self, item: _Output, event: dict[str, Any], *, last: bool) -> None:
        """Show a piece of a message."""
        text = as_text(event.get("text") if last else event["delta"])
        if text and not item.whole and not (last and item.pieces):
            item.pieces.append(text)
            self._deltas.add_text("text", PARTS_APART + text if self._shown not in (None, item) else text)
            self._shown = item

    def _think(self, item: _Output, form: str, event: dict[str, Any], *, last: bool) -> None:
        """Show a piece of reasoning, of that form of it that comes first."""
        text, part = as_text(event.get("text") if last else event["delta"]), (item, event.get(f"{form}_index"))
        item.form = item.form or form
        if text and not item.whole and form == item.form and not (last and part == self._thought):
            item.pieces.append(text)
            self._deltas.add_text("reasoning", PARTS_APART + text if self._thought not in (None, part) else text)
            self._thought = part

    def _take_arguments(self, event: dict[str, Any], *, last: bool) -> None:
        call = self._find("function_call", event)
        if last:
            call.whole_arguments = call.whole_arguments or arguments_text(event.get("arguments"))
        elif not (call.whole or call.whole_arguments):
            call.pieces.append(self._deltas.size.take(as_text(event["delta"])))

    def _settle(self, item: _Output, raw: dict[str, Any]) -> None:
        """End an item with its complete form, unless it has ended."""
        if item.whole:
            return
        item.id = item.id or as_text(raw.get("id"))
        match item.kind:
            case "function_call":
                self._name_call(item, raw)
                item.whole_arguments = arguments_text(raw.get("arguments")) or item.whole_arguments
            case "message":
                item.refusal = "".join(_texts(raw.get("content"), "refusal")) or item.refusal
            case "reasoning" if not item.pieces:
                texts = _texts(raw.get("summary")) or _texts(raw.get("content"))
                self._think(item, "", {"text": PARTS_APART.join(texts)}, last=True)
        item.whole = raw

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
            self._reconcile(_objects(output))
        self._ended = self.done = True

    def _reconcile(self, output: list[dict[str, Any]]) -> None:
        """Take from the final response what no earlier event contained."""
        ids = {as_text(raw.get("id")) for raw in output} - {""}
        order: list[_Output] = []
        for position, raw in enumerate(output):
            same = [item for item in self._items if item.kind == raw.get("type") and item not in order]
            by_id = (item for item in same if item.id in ids and item.id == raw.get("id"))
            others = (item for item in same if item.id not in ids)
            found = (
                next(by_id, None) or next(others, None) or self._new(as_text(raw.get("type")), raw.get("id"), position)
            )
            self._settle(found, raw)
            order.append(found)
        if len(order) == len(self._items):
            self._order = order

    def _end(self) -> None:
        if not self._ended:
            raise cut_off("the connection ended", self._broken_call())
        if (broken := self._broken_call()) is not None:
            raise cut_off("the server stopped", broken, at_limit=self._finish == "length")
        self._pass_on_the_rest()

    def _broken_call(self) -> str | None:
        """The name of a call that was not ended and whose arguments are incomplete JSON, or `None`."""
        for item in self._calls:
            ended = item.whole and item.whole.get("status") != "incomplete"
            if not (ended or is_object(item.arguments)):
                return item.name
        return None

    def _pass_on_the_rest(self) -> None:
        """Pass on what the messages have beyond their deltas. Raises `Fault` if they contradict them."""
        content, shown = "".join(text for _, text in self._shares()), self._deltas.content
        if content.startswith(shown):
            self._deltas.add_text("text", content[len(shown) :])
        elif content.strip() != shown.strip():
            raise Fault("answer", "the pieces of the answer do not fit the whole", retry=True)

    @property
    def _calls(self) -> list[_Output]:
        return [item for item in self._items if item.kind == "function_call"]

    def _shares(self) -> Iterator[tuple[_Output, str]]:
        """The items in their order, with the share that each has of the turn's content, separators included."""
        begun = False
        for item in self._order:
            text = item.text if item.kind == "message" else ""
            yield item, PARTS_APART + text if begun and text else text
            begun = begun or bool(text)

    def _turn(self) -> ModelTurn:
        refusal = " ".join(item.refusal for item in self._items if item.refusal)
        content = "" if refusal else self._deltas.content
        items = () if refusal else tuple(self._provider_items())
        return ModelTurn(
            content=content,
            reasoning=self._deltas.reasoning,
            tool_calls=tuple(RequestedCall(item.call_id, item.name, item.arguments) for item in self._calls),
            finish_reason=self._finish,
            failure=refused(refusal) if refusal else filtered() if self._finish == "content_filter" else "",
            usage=self._usage,
            provider=ProviderItems("responses", self._origin, items) if items else None,
        )

    def _provider_items(self) -> Iterator[Item]:
        """The items to send back with the turn; none if the message contains everything."""
        if "".join(text for _, text in self._shares()) != self._deltas.content:
            return
        if not any(map(_is_telling, self._items)) and sum(item.kind == "message" for item in self._items) < 2:
            return
        for item, share in self._shares():
            match item.kind:
                case "message":
                    if share:
                        yield TextItem(len(share), _message_frame(item, len(share) - len(item.text)))
                case "function_call":
                    frame = _own(item.whole, "id", "status", "namespace", "caller")
                    yield CallItem(self._calls.index(item), frame if frame and is_storable(frame) else None)
                case _:
                    if (kept := _opaque(item.whole)) is not None:
                        yield OpaqueItem(kept)


def _incomplete(details: Any) -> FinishReason:
    match details.get("reason") if isinstance(details, dict) else None:
        case "content_filter":
            return "content_filter"
        case "steered":
            return "stop"
        case _:
            return "length"


def _texts(parts: Any, name: str = "text") -> list[str]:
    """The texts of an item's parts; of a plain text, which some servers send instead, itself."""
    if isinstance(parts, str):
        return [parts] if parts and name == "text" else []
    return [text for part in _objects(parts) if (text := as_text(part.get(name)))]


def _objects(values: Any) -> list[dict[str, Any]]:
    """Those of a list's values that are objects."""
    return [value for value in values if isinstance(value, dict)] if isinstance(values, list) else []


def _is_telling(item: _Output) -> bool:
    """Whether the item contains more than the message does."""
    match item.kind:
        case "message":
            cited = any(part.get("annotations") for part in _objects(item.whole.get("content")))
            return _message_frame(item, 0) is not None and bool(item.whole.get("phase") or cited)
        case "function_call":
            return any(item.whole.get(name) for name in ("namespace", "caller"))
        case _:
            return _opaque(item.whole) is not None


def _message_frame(item: _Output, at: int) -> dict[str, Any] | None:
    """The message with its texts replaced by their offsets in its share of the content, from `at` on."""
    whole = item.whole
    if not isinstance(whole.get("content"), list) or not as_text(whole.get("id")):
        return None
    content: list[dict[str, Any]] = []
    for part in _objects(whole["content"]):
        if text := as_text(part.get("text")):
            annotations = _objects(part.get("annotations"))
            content.append({"type": "output_text", "annotations": annotations, "text": [at, at + len(text)]})
            at += len(text)
    frame = {"id": whole["id"], "type": "message", "role": "assistant", "status": "completed"}
    frame |= _own(whole, "status", "phase") | {"content": content}
    return frame if content and is_storable(frame) else None


def _opaque(whole: dict[str, Any]) -> dict[str, Any] | None:
    """The item as it is sent back; `None` for one that services would refuse."""
    if _TYPE.fullmatch(as_text(whole.get("type"))) is None or not as_text(whole.get("id")):
        return None
    raw = {name: value for name, value in whole.items() if value is not None}  # services send null and refuse it
    if raw["type"] == "reasoning":
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
