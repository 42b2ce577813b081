"""`AnswerReader`, and its parts: events from bytes, JSON from events, size limits, and joining of deltas."""

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any, Literal

from agent_kernel.models.base import ModelItem, ModelTurn, ReasoningDelta, TextDelta
from agent_kernel.models.service_faults import Fault
from agent_kernel.models.sse import EventReader

DONE = b"[DONE]"

MOST_CHARACTERS = 8_000_000
"""The most characters of a turn: text, reasoning and arguments. Today's longest answers have less than a million."""
LARGE_EVENT_BYTES = 4_096
"""Events above this size count in full, because parts of them may be kept to be sent back to the provider."""
MOST_EVENTS = 400_000
MOST_QUOTED = 80
"""Bytes of what is no answer that a message quotes."""
MOST_PARTS = 1_000
"""The most calls and text blocks of a turn."""
TextKind = Literal["text", "reasoning"]
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_HALF_EMOJI = re.compile(rb"(?i)\\ud[89a-f]")


class SizeLimit:
    """Bounds the size of one turn. Whatever is kept of an answer is counted here as it arrives."""

    def __init__(self) -> None:
        self._characters = 0
        self._events = 0
        self._parts = 0

    def take(self, text: str) -> str:
        """Count a text and return it. Raises `Fault` if the turn gets too long."""
        self.take_size(len(text))
        return text

    def take_size(self, size: int) -> None:
        """Count characters. Raises `Fault` if the turn gets too long."""
        self._characters += size
        if self._characters > MOST_CHARACTERS:
            raise Fault("answer", f"its answer is longer than {MOST_CHARACTERS:,} characters")

    def take_events(self, events: Sequence[bytes]) -> None:
        """Count events before they are parsed. Raises `Fault` if there are too many."""
        self._events += len(events)
        if self._events > MOST_EVENTS:
            raise Fault("answer", f"its answer has more than {MOST_EVENTS:,} events")
        self.take_size(sum(len(event) for event in events if len(event) > LARGE_EVENT_BYTES))

    def begin_part(self) -> None:
        """Count a call or text block that begins. Raises `Fault` if there are too many."""
        self._parts += 1
        if self._parts > MOST_PARTS:
            raise Fault("answer", f"its answer has more than {MOST_PARTS:,} parts (calls and texts)")


class AnswerBody:
    """The body of an answer: server-sent events, or one JSON object if the server did not stream."""

    def __init__(self, size: SizeLimit) -> None:
        self.streamed = True
        self._size = size
        self._events = EventReader()
        self._kept = b""
        """The first bytes, until it is clear what they are; the whole body, if it is not streamed."""
        self._begun = False
        self._unread = 0
        """Bytes since the last event, or of the whole body if it is not streamed."""

    def feed(self, chunk: bytes) -> list[bytes]:
        """The data of the events that `chunk` completes. Raises `Fault` for a web page, and for one event too long."""
        self._unread += len(chunk)
        if not self._begun:
            chunk = self._kept = (self._kept + chunk).removeprefix(_BYTE_ORDER_MARK).lstrip()
            self._begun = not _BYTE_ORDER_MARK.startswith(chunk)
            self.streamed = not chunk.startswith(b"{")
            if chunk.startswith(b"<"):
                raise Fault("address", "it answered with a web page")
        elif not self.streamed:
            self._kept += chunk
        events = self._events.feed(chunk) if self._begun and self.streamed else []
        if events:
            self._unread = 0
            self._size.take_events(events)
        elif self._unread > MOST_CHARACTERS:
            raise Fault("answer", f"it sent a single piece of more than {MOST_CHARACTERS:,} bytes")
        return events

    def finish(self) -> list[bytes]:
        """The last event, if its closing blank line never came; the whole body, if it was not streamed."""
        if not self.streamed:
            return [self._kept]
        return [event for event in self._events.finish() if event.strip()]


def load_event(raw: bytes) -> Any:
    """Raises `Fault`."""
    try:
        event = json.loads(raw.decode("utf-8", "replace"))
        if _HALF_EMOJI.search(raw) is None:
            return event
        return json.loads(json.dumps(event, ensure_ascii=False).encode("utf-8", "replace"))  # half an emoji becomes `?`
    except (ValueError, RecursionError):
        start = raw[:MOST_QUOTED].decode("utf-8", "replace")
        raise Fault("answer", f"the server sent an event that is not JSON: {start}", retry=True) from None


def as_text(value: Any) -> str:
    """The value if it is a text, else an empty one."""
    return value if isinstance(value, str) else ""


def is_object(arguments: str) -> bool:
    """Whether a call's arguments are a complete JSON object."""
    try:
        return isinstance(json.loads(arguments), dict)
    except (ValueError, RecursionError):
        return False


class Deltas:
    """Collects the items of an answer."""

    def __init__(self) -> None:
        self.size = SizeLimit()
        self._texts: dict[TextKind, list[str]] = {"text": [], "reasoning": []}
        self._items: list[ModelItem] = []

    @property
    def content(self) -> str:
        return "".join(self._texts["text"])

    @property
    def reasoning(self) -> str:
        return "".join(self._texts["reasoning"])

    def add_text(self, kind: TextKind, text: str) -> None:
        if text:
            self._texts[kind].append(self.size.take(text))
            self.add(TextDelta(text) if kind == "text" else ReasoningDelta(text))

    def add(self, item: ModelItem) -> None:
        self._items.append(item)

    def take(self) -> Iterator[ModelItem]:
        """The items since the last call. Texts of one kind are joined, because an item costs more later than here."""
        items, self._items = self._items, []
        for kind, same in groupby(items, key=type):
            if issubclass(kind, TextDelta | ReasoningDelta):
                yield kind("".join(item.content for item in same if isinstance(item, kind)))
            else:
                yield from same


class AnswerReader(ABC):
    """Turns bytes into deltas and, at the end, a `ModelTurn`. It does no I/O, so that any chunking of the same bytes
    can be tested."""

    def __init__(self) -> None:
        self.done = False
        """True once the server has said that nothing follows."""
        self._seen = False
        """Whether there is anything of an answer."""
        self._deltas = Deltas()
        self._body = AnswerBody(self._deltas.size)

    @property
    @abstractmethod
    def whole(self) -> bool:
        """Whether the answer is complete, so that a connection that breaks now loses nothing."""

    def feed(self, chunk: bytes) -> list[ModelItem]:
        """Feed bytes of the body. Returns the deltas that they complete. Raises `Fault`."""
        for event in self._body.feed(chunk):
            self._take(event)
        return list(self._deltas.take())

    def finish(self) -> list[ModelItem]:
        """End the body. Returns the remaining items, the last of which is the turn. Raises `Fault` if it was cut
        off."""
        for event in self._body.finish():
            self._take(event)
        if not self._seen:
            if not self._body.streamed:
                raise Fault("address", "it answered with JSON that holds no answer")
            raise Fault("answer", "the server sent no answer", retry=True)
        self._end()
        return [*self._deltas.take(), self._turn()]

    def _take(self, raw: bytes) -> None:
        if raw.strip() == DONE:
            self.done = True
        if self.done:
            return
        event = load_event(raw)
        if not isinstance(event, dict):
            raise Fault("answer", "the server sent an event that is no JSON object", retry=True)
        try:
            self._add_event(event)
        except (AttributeError, IndexError, KeyError, RecursionError, TypeError, ValueError):
            raise Fault("answer", "the server sent an event of an unknown shape", retry=True) from None

    @abstractmethod
    def _add_event(self, event: dict[str, Any]) -> None:
        """Take in one event, or the whole body if it was not streamed. Raises `Fault`."""

    @abstractmethod
    def _end(self) -> None:
        """Called at the end of the body. Raises `Fault` if it was cut off."""

    @abstractmethod
    def _turn(self) -> ModelTurn: ...


def cut_off(
    how: Literal["the connection ended", "the server stopped"], call: str | None, *, at_limit: bool = False
) -> Fault:
    """The fault for half an answer, in the middle of the call of this name, if it is not `None`; `at_limit` if that is
    because it reached its length limit."""
    what = "the answer" if call is None else f"a call of {call}" if call else "a call"
    ended = "the answer reached its length limit" if at_limit else how
    return Fault("answer", f"{ended} in the middle of {what}", retry=not at_limit)


def arguments_text(arguments: Any) -> str:
    """A call's arguments as JSON text, which some servers send as an object; blank if there are none."""
    if isinstance(arguments, str):
        return arguments
    return "" if arguments is None else json.dumps(arguments, ensure_ascii=False)
