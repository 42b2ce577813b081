"""The pictures of one request: which of those that were shown the model gets, and a line of text for each other."""

import base64
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from agent_kernel.log import images
from agent_kernel.models.base import IMAGES, WireMessage
from agent_kernel.protocol.views import ImageRefs

if TYPE_CHECKING:
    from agent_kernel.runtime.state.run import ActiveRun

MOST_IMAGES, FEW_IMAGES = 20, 10
"""When a conversation has shown more than the first, the oldest are left out until the second is left: so what a
request begins with changes with every tenth picture, and a provider's cache of it stays of use in between."""


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


async def request_messages(run: "ActiveRun") -> Sequence[WireMessage]:
    """What the model is sent. Afterwards `run.pictures.data` has the pictures to which it refers."""
    pictures = run.pictures
    pictures.new = {}
    said = run.window.messages(run.history)
    at = [index for index, message in enumerate(said) if IMAGES in message]
    if not at:
        return said
    kept = _kept([len(said[index][IMAGES]) for index in at]) if run.sends_images else [range(0)] * len(at)
    wanted = {said[index][IMAGES][place]["digest"] for index, places in zip(at, kept, strict=True) for place in places}
    data = {digest: pictures.data[digest] for digest in wanted & pictures.data.keys()}
    if missing := wanted - data.keys():
        number = run.setting.conversation.number
        data |= await run.setting.log.read(lambda sql: images.read(sql, number, missing))
    pictures.data = data
    messages = list(said)
    for index, places in zip(at, kept, strict=True):
        messages[index] = pictures.attach(messages[index], places)
    return messages


def _kept(counts: Sequence[int]) -> list[range]:
    """Which of the pictures of each message stay, of messages with so many each. The older go first, several at once;
    what is left depends on the conversation alone, and so is the same after a restart."""
    total, first = 0, 0
    for count in counts:
        for _ in range(count):
            total += 1
            if total - first > MOST_IMAGES:
                first = total - FEW_IMAGES
    kept: list[range] = []
    for count in counts:
        kept.append(range(min(count, max(0, first)), count))
        first -= count
    return kept


def _line(ref: dict[str, Any], role: str) -> str:
    size = f"{ref['width']} x {ref['height']} pixels"
    if role == "tool":
        return f"[A plot was shown to the user: {size}. You can't see it.]"
    return f"[The user's message has a picture: {size}. You can't see it.]"
