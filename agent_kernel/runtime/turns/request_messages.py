"""The messages of one request, with the newest pictures and a line of text in place of each older one."""

from collections.abc import Sequence

from agent_kernel.log import stored_images
from agent_kernel.models.base import IMAGES, WireMessage
from agent_kernel.runtime.state.active_run import ActiveRun

MOST_IMAGES, FEW_IMAGES = 20, 10
"""When a conversation has more pictures than the first, the oldest are left out down to the second. So the beginning of
requests changes with every tenth picture only, and a provider's cache of it stays valid in between."""


async def request_messages(run: ActiveRun) -> Sequence[WireMessage]:
    """The messages for the model. Afterwards `run.pictures.data` has the pictures that they refer to."""
    pictures, said = run.pictures, run.transcript.messages()
    has_any = IMAGES in run.transcript.special
    at = [index for index, message in enumerate(said) if IMAGES in message] if has_any else []
    if not at:
        pictures.begin_request()
        return said
    kept = _kept([len(said[index][IMAGES]) for index in at]) if run.sends_images else [range(0)] * len(at)
    wanted = {said[index][IMAGES][place]["digest"] for index, places in zip(at, kept, strict=True) for place in places}
    if missing := pictures.begin_request(wanted):
        number = run.conversation.number
        pictures.add_encoded(await run.log.read(lambda sql: stored_images.read(sql, number, missing)))
    messages = list(said)
    for index, places in zip(at, kept, strict=True):
        messages[index] = pictures.attach(messages[index], places)
    return messages


def _kept(counts: Sequence[int]) -> list[range]:
    """Which pictures of each message stay, given the numbers of pictures per message. The choice depends on the
    conversation alone, so that it is the same after a restart."""
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
