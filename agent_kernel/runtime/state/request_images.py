"""The pictures that a run has at hand for its requests."""

import base64
from collections.abc import Collection, Mapping
from typing import Any

from agent_kernel.models.base import IMAGES, WireMessage
from agent_kernel.protocol.views import ImageRefs


class RequestImages:
    """Changed by the turns of the model, and by calls that show something."""

    def __init__(self) -> None:
        self._data: dict[str, str] = {}
        self._new: dict[str, int] = {}
        self._noted: set[str] = set()

    @property
    def data(self) -> Mapping[str, str]:
        """In base64, by digest: those of the last request, and what was shown since."""
        return self._data

    @property
    def new(self) -> Mapping[str, int]:
        """The number of pictures of each call in the last request, for calls of which it is not in the log yet."""
        return self._new

    def begin_request(self, digests: Collection[str] = ()) -> set[str]:
        """Keep these for the next request, and no others. Returns those that are still to be read."""
        self._new = {}
        self._data = {digest: self._data[digest] for digest in digests if digest in self._data}
        return set(digests) - self._data.keys()

    def add(self, data: Mapping[str, bytes]) -> None:
        """Add the pictures that a call has shown, so that they are not read again for the next request."""
        if data:
            self.add_encoded({digest: base64.b64encode(raw).decode() for digest, raw in data.items()})

    def add_encoded(self, data: Mapping[str, str]) -> None:
        self._data = {**self._data, **data}  # a new one: a request that is under way has the old one

    def noted(self) -> None:
        """Forget what was new: it is in the log."""
        self._noted.update(self._new)
        self._new = {}

    def attach(self, message: WireMessage, kept: Collection[int]) -> WireMessage:
        """A message with the pictures at the places `kept`, as far as they are there, and a line for each other."""
        refs: ImageRefs = message[IMAGES]
        there = [place in kept and ref["digest"] in self._data for place, ref in enumerate(refs)]
        attached = [ref for ref, is_there in zip(refs, there, strict=True) if is_there]
        lines = [_line(ref, message["role"]) for ref, is_there in zip(refs, there, strict=True) if not is_there]
        call = message.get("tool_call_id")
        if attached and call is not None and call not in self._noted:
            self._new[call] = len(attached)
        plain = {name: value for name, value in message.items() if name != IMAGES}
        if lines:
            plain["content"] = "\n".join([message["content"], *lines])
        return plain | {IMAGES: attached} if attached else plain


def _line(ref: dict[str, Any], role: str) -> str:
    size = f"{ref['width']} x {ref['height']} pixels"
    if role == "tool":
        return f"[A plot was shown to the user: {size}. You can't see it.]"
    return f"[The user's message has a picture: {size}. You can't see it.]"
