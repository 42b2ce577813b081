"""What a provider wants back with a turn and only it can read: encrypted reasoning, signed thinking.

The log keeps these items beside the assistant message to which they belong. What the message says anyway, its text and
its calls, is not kept twice: a part stands in for it, so that the order of the whole turn can be made again.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from agent_kernel.protocol.vocabulary import ApiName


@dataclass(frozen=True, slots=True)
class OpaqueItem:
    """An item exactly as it was received."""

    item: dict[str, Any]
    type: Literal["opaque"] = "opaque"


@dataclass(frozen=True, slots=True)
class TextItem:
    """The next `length` characters of the message's content."""

    length: int
    frame: dict[str, Any] | None = None
    """What else the item says, in its API's own shape."""
    type: Literal["text"] = "text"


@dataclass(frozen=True, slots=True)
class CallItem:
    """The call at this place in the message's `tool_calls`."""

    index: int
    frame: dict[str, Any] | None = None
    """As in `TextItem`."""
    type: Literal["call"] = "call"


Item = OpaqueItem | TextItem | CallItem


@dataclass(frozen=True, slots=True)
class ProviderItems:
    """The items of one turn, in the provider's order."""

    api: ApiName
    origin: str
    """The address and the model that made them. Nobody else can read them, so nobody else gets them."""
    items: tuple[Item, ...]

    def to_wire(self) -> dict[str, Any]:
        """As a message has them, in the log too."""
        return {"api": self.api, "origin": self.origin, "items": [_to_wire(item) for item in self.items]}


def readable_items(message: dict[str, Any], api: ApiName, origin: str) -> tuple[Item, ...] | None:
    """The items of an assistant's message that this API of this origin made; `None` where it made none."""
    kept = message.get("provider")
    if kept is None or kept["api"] != api or kept["origin"] != origin:
        return None
    return tuple(_from_wire(kept["items"]))


def _to_wire(item: Item) -> dict[str, Any]:
    match item:
        case OpaqueItem():
            return {"item": item.item}
        case TextItem():
            return {"text": item.length} | _framed(item.frame)
        case CallItem():
            return {"call": item.index} | _framed(item.frame)


def _framed(frame: dict[str, Any] | None) -> dict[str, Any]:
    return {} if frame is None else {"frame": frame}


def _from_wire(items: list[dict[str, Any]]) -> Iterator[Item]:
    for item in items:
        match item:
            case {"item": dict(opaque)}:
                yield OpaqueItem(opaque)
            case {"text": int(length)}:
                yield TextItem(length, item.get("frame"))
            case {"call": int(index)}:
                yield CallItem(index, item.get("frame"))
            case _:
                raise ValueError(f"This is no provider item: {item!r}")
