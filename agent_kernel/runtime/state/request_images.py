"""The pictures that a run has at hand for its requests."""

import base64
from collections.abc import Collection, Mapping
from typing import Any

from agent_kernel.models.base import IMAGES, WireMessage
from agent_kernel.protocol.views import ImageRefs


class RequestImages:
    """What a run knows of the pictures of its last request."""

    def __init__(self) -> None:
        self.data: dict[str, str] = {}
        """In base64, by digest: those of the last request, and what was shown since."""
        self.new: dict[str, int] = {}
        """How many pictures of a call were in it, for calls of which that is not in the log yet."""
        self._noted: set[str] = set()

    def add(self, data: Mapping[str, bytes]) -> None:
        """What a call has shown, so that it is not read again for the next request."""
        self.data = self.data | {digest: base64.b64encode(raw).decode() for digest, raw in data.items()}

    def noted(self) -> None:
        """What was new is in the log."""
        self._noted.update(self.new)
        self.new = {}

    def attach(self, message: WireMessage, kept: Collection[int]) -> WireMessage:
        """A message with the pictures at the places `kept`, as far as they are there, and a line for each other."""
        refs: ImageRefs = message[IMAGES]
        there = [place in kept and ref["digest"] in self.data for place, ref in enumerate(refs)]
        attached = [ref for ref, is_there in zip(refs, there, strict=True) if is_there]
        lines = [_line(ref, message["role"]) for ref, is_there in zip(refs, there, strict=True) if not is_there]
        call = message.get("tool_call_id")
        if attached and call is not None and call not in self._noted:
            self.new[call] = len(attached)
        plain = {name: value for name, value in message.items() if name != IMAGES}
        if lines:
            plain["content"] = "\n".join([message["content"], *lines])
        return plain | {IMAGES: attached} if attached else plain


def _line(ref: dict[str, Any], role: str) -> str:
    size = f"{ref['width']} x {ref['height']} pixels"
    if role == "tool":
        return f"[A plot was shown to the user: {size}. You can't see it.]"
    return f"[The user's message has a picture: {size}. You can't see it.]"
