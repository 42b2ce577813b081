"""Reads the answers of the Responses API: events about items (messages, reasoning, calls), and at the end the response
as a whole. What counts is the response; the deltas before are shown meanwhile, and so are the calls that begin.

An answer that extends its deltas, or comes without them, is passed on; one that contradicts them is a fault, because
they were shown.
"""

import re
from collections.abc import Iterator
from typing import Any

from agent_kernel.models.answer_reading import AnswerReader, arguments_text, as_text, cut_off, is_object
from agent_kernel.models.base import ModelTurn, RequestedCall, TokenUsage, ToolCallDelta
from agent_kernel.models.no_answer import filtered, refused
from agent_kernel.models.provider_items import CallItem, Item, OpaqueItem, ProviderItems, TextItem, is_storable
from agent_kernel.models.service_faults import Fault, error_object_fault
from agent_kernel.models.usage import openai_usage
from agent_kernel.protocol.vocabulary import FinishReason

Output = dict[str, Any]
"""An item of the answer, as the service sends it whole."""

PARTS_APART = "\n\n"
_REASONING = {
    "response.reasoning_summary_text.delta": "summary_index",
    "response.reasoning_text.delta": "content_index",
    "response.reasoning.delta": "content_index",
}
"""The events with pieces of reasoning, each with its field that tells parts apart."""
_FRAME: dict[str, type] = {"id": str, "status": str, "phase": str, "namespace": str, "caller": dict}
"""The fields of items that are sent back besides text and calls, with their types."""
_TELLING = ("phase", "namespace", "caller")
"""Those of them for which they are."""
_TYPE = re.compile(r"[a-z][a-z_]{5,}")
"""The names of types of items, those to come among them: `reasoning`, `mcp_call`."""
_STATUSES = ("in_progress", "completed", "incomplete")
_LAST = ("response.completed", "response.incomplete", "response.failed", "response.done", "response.cancelled")


class ResponsesReader(AnswerReader):
    """Events of types that it does not know say nothing."""

    def __init__(self, origin: str) -> None:
        super().__init__()
        self._origin = origin
        self._begun: dict[str, str] = {}
        """The names of the calls that have begun, and whose cards are shown, by the ids of their items."""
        self._items: list[Output] = []
        """The items that have ended; from the end on those of the response, where it has them."""
        self._message: Any = None
        """The place of the message that was shown last."""
        self._thought: tuple[str, Any, Any] | None = None
        """The kind of reasoning that was shown last, and the place of its part."""
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
        if kind in _LAST:
            self._take_last(event)
        elif isinstance(kind, str):
            self._take_event(kind, event)

    def _take_event(self, kind: str, event: dict[str, Any]) -> None:
        place = event.get("output_index", event.get("item_id"))
        if kind == "response.output_item.added":
            self._begin(event["item"])
        elif kind == "response.output_item.done":
            self._items.append(dict(event["item"]))
        elif kind == "response.output_text.delta":
            self._show(as_text(event["delta"]), place)
        elif kind in _REASONING:
            self._think(as_text(event["delta"]), (kind, place, event.get(_REASONING[kind])))
        else:
            return
        self._seen = True

    def _begin(self, item: Output) -> None:
        if item.get("type") == "function_call":
            self._begin_call(as_text(item.get("id")) or as_text(item.get("call_id")), item)

    def _begin_call(self, key: str, call: Output) -> None:
        if key not in self._begun:
            self._deltas.size.begin_part()
            self._begun[key] = as_text(call.get("name"))
            self._deltas.add(ToolCallDelta(len(self._begun) - 1, self._begun[key], as_text(call.get("call_id"))))

    def _show(self, text: str, place: Any) -> None:
        """Show a piece of a message."""
        if text:
            apart = self._deltas.content and place != self._message
            self._deltas.add_text("text", PARTS_APART + text if apart else text)
            self._message = place

    def _think(self, text: str, part: tuple[str, Any, Any]) -> None:
        """Show a piece of reasoning, of that kind that comes first."""
        if text and (self._thought is None or self._thought[0] == part[0]):
            apart = self._thought not in (None, part)
            self._deltas.add_text("reasoning", PARTS_APART + text if apart else text)
            self._thought = part

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
        self._items = _objects(response.get("output")) or self._items
        for _ in self._items:
            self._deltas.size.begin_part()
        self._seen = self._ended = self.done = True

    def _end(self) -> None:
        broken = self._broken_call()
        if not self._ended:
            raise cut_off("the connection ended", broken)
        if broken is not None:
            raise cut_off("the server stopped", broken, at_limit=self._finish == "length")
        self._pass_on_the_rest()

    def _broken_call(self) -> str | None:
        """The name of a call that has begun and not ended, or that was ended with incomplete arguments."""
        if self._finish == "content_filter":
            return None
        calls = _calls(self._items)
        for call in calls:
            if call.get("status") == "incomplete" and not is_object(_arguments(call)):
                return as_text(call.get("name"))
        return list(self._begun.values())[len(calls)] if len(self._begun) > len(calls) else None

    def _pass_on_the_rest(self) -> None:
        """Pass on what the items have beyond their deltas. Raises `Fault` if they contradict them."""
        items = self._items
        content, shown = "".join(text for _, text in _shares(items)), self._deltas.content
        if content.startswith(shown):
            self._deltas.add_text("text", content[len(shown) :])
        elif content.strip() not in ("", shown.strip()):
            raise Fault("answer", "the pieces of the answer do not fit the whole", retry=True)
        if self._thought is None:
            thoughts = [item for item in items if item.get("type") == "reasoning"]
            told = [text for item in thoughts for text in _texts(item.get("summary")) or _texts(item.get("content"))]
            self._deltas.add_text("reasoning", PARTS_APART.join(told))
        calls, names = _calls(items), list(self._begun.values())
        if any(as_text(call.get("name")) != name for call, name in zip(calls, names, strict=False)):
            raise Fault("answer", "the server mixed up two calls", retry=True)
        for call in calls[len(names) :]:
            self._begin_call(f"at the end {len(self._begun)}", call)

    def _turn(self) -> ModelTurn:
        items = self._items
        refusal = " ".join("".join(_texts(item.get("content"), "refusal")) for item in items).strip()
        content = "" if refusal else self._deltas.content
        kept = () if refusal else tuple(self._provider_items(items))
        calls = (
            RequestedCall(as_text(call.get("call_id")), as_text(call.get("name")), _arguments(call))
            for call in _calls(items)
        )
        return ModelTurn(
            content=content,
            reasoning=self._deltas.reasoning,
            tool_calls=tuple(calls),
            finish_reason=self._finish,
            failure=refused(refusal) if refusal else filtered() if self._finish == "content_filter" else "",
            usage=self._usage,
            provider=ProviderItems("responses", self._origin, kept) if kept else None,
        )

    def _provider_items(self, items: list[Output]) -> Iterator[Item]:
        """The items to send back with the turn; none if the message contains everything."""
        if "".join(text for _, text in _shares(items)) != self._deltas.content:
            return
        others = [item for item in items if item.get("type") not in ("message", "function_call")]
        telling = any(_opaque(item) for item in others) or any(_frame(item).keys() & {*_TELLING} for item in items)
        if not telling and sum(item.get("type") == "message" for item in items) < 2:
            return
        calls = 0
        for item, share in _shares(items):
            match item.get("type"):
                case "message":
                    if share:
                        yield TextItem(len(share), _frame(item) if item.get("id") else None)
                case "function_call":
                    yield CallItem(calls, _frame(item))
                    calls += 1
                case _:
                    if (kept := _opaque(item)) is not None:
                        yield OpaqueItem(kept)


def _shares(items: list[Output]) -> Iterator[tuple[Output, str]]:
    """The items, with the share that each has of the turn's content, separators included."""
    begun = False
    for item in items:
        text = "".join(_texts(item.get("content"))) if item.get("type") == "message" else ""
        yield item, PARTS_APART + text if begun and text else text
        begun = begun or bool(text)


def _calls(items: list[Output]) -> list[Output]:
    return [item for item in items if item.get("type") == "function_call"]


def _arguments(call: Output) -> str:
    """The arguments as JSON text. Missing arguments become `{}`, which is what servers mean."""
    return arguments_text(call.get("arguments")).strip() or "{}"


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


def _frame(item: Output) -> dict[str, Any]:
    """Those of the known fields that are set."""
    kept = {name: item[name] for name, kind in _FRAME.items() if item.get(name) and isinstance(item[name], kind)}
    if kept.get("status") not in _STATUSES:
        kept.pop("status", None)
    return kept if is_storable(kept) else {}


def _opaque(item: Output) -> dict[str, Any] | None:
    """The item as it is sent back; `None` for one that services would refuse."""
    if _TYPE.fullmatch(as_text(item.get("type"))) is None or not as_text(item.get("id")):
        return None
    raw = {name: value for name, value in item.items() if value is not None}  # services send null and refuse it
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
