"""The messages of one request: which of the pictures that were shown the model gets, and a line for each other."""

from collections.abc import Sequence

from agent_kernel.log import images
from agent_kernel.models.base import IMAGES, WireMessage
from agent_kernel.runtime.state.run import ActiveRun

MOST_IMAGES, FEW_IMAGES = 20, 10
"""When a conversation has shown more than the first, the oldest are left out until the second is left: so what a
request begins with changes with every tenth picture, and a provider's cache of it stays of use in between."""


async def request_messages(run: ActiveRun) -> Sequence[WireMessage]:
    """What the model is sent. Afterwards `run.pictures.data` has the pictures to which it refers."""
    pictures, said = run.pictures, run.transcript.messages()
    at = [index for index, message in enumerate(said) if IMAGES in message]
    if not at:
        pictures.begin_request()
        return said
    kept = _kept([len(said[index][IMAGES]) for index in at]) if run.sends_images else [range(0)] * len(at)
    wanted = {said[index][IMAGES][place]["digest"] for index, places in zip(at, kept, strict=True) for place in places}
    if missing := pictures.begin_request(wanted):
        number = run.conversation.number
        pictures.add_encoded(await run.log.read(lambda sql: images.read(sql, number, missing)))
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
