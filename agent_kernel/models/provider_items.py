"""Items that a provider wants back with a turn: reasoning, encrypted or not, and signed thinking.

The log keeps them with the assistant message that they belong to. The message's text and calls are not stored twice:
placeholders refer to them, so that the turn can be rebuilt in its original order.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import orjson

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
    """The item's other fields, in its API's format."""
    type: Literal["text"] = "text"


@dataclass(frozen=True, slots=True)
class CallItem:
    """The call at this index in the message's `tool_calls`."""

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
    """The address and model that made them. They are sent to no other, which could not read them."""
    items: tuple[Item, ...]

    def to_wire(self) -> dict[str, Any]:
        """The items as a dict, as messages and the log contain them."""
        return {"api": self.api, "origin": self.origin, "items": [_to_wire(item) for item in self.items]}


def readable_items(message: dict[str, Any], api: ApiName, origin: str) -> tuple[Item, ...] | None:
    """The items of an assistant's message that this API and origin made, or `None`."""
    kept = message.get("provider")
    if kept is None or kept["api"] != api or kept["origin"] != origin:
        return None
    return tuple(_from_wire(kept["items"]))


def is_bound(message: dict[str, Any]) -> bool:
    """Whether a message has items that were made for the conversation as it was, and that services refuse behind
    another one. Those of Chat Completions are wanted back whatever became of the messages before."""
    kept = message.get("provider")
    return kept is not None and kept["api"] != "chat"


def is_storable(item: Any) -> bool:
    """Whether the log can store the item: not nested too deeply. `SizeLimit` has bounded its size."""
    try:
        orjson.dumps(item)
    except TypeError:
        return False
    return True


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
