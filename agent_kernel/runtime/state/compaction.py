"""Shortened conversations, for models whose context is too small. Pure; the log keeps everything.

How a conversation is shortened is planned in `turns.compaction_plan`; here is how a plan is applied. Messages are
counted from the first of the conversation, which has the number 1, as in the log; in a history the system prompt stands
before it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from agent_kernel.models import images
from agent_kernel.models.base import IMAGES, PROVIDER, SUMMARY_CLOSE, SUMMARY_OPEN, WireMessage
from agent_kernel.models.provider_items import is_bound
from agent_kernel.tools.truncation import TextLimits, truncate

BYTES_PER_TOKEN = 3.5
"""An average of prose, code and tables, corrected by what a service reports: see `Window`."""
OVERHEAD_BYTES = 24
"""The framing of a message, and of a call."""
_MANY_LINES = 1_000_000

LEFT_OUT = "left_out"
"""The role of the placeholder for a message of a run whose cell was run again. No request contains it."""


@dataclass(frozen=True, slots=True)
class Compaction:
    """One way to shorten a conversation. The same messages give the same request, whatever came after them."""

    summarised: int = 0
    """The first so many messages are left out, and `summary` stands in for them."""
    summary: str = ""
    prompt: int = 0
    """One of them that stays all the same: the prompt that was being worked on. 0 where none does."""
    shortened: int = 0
    """The results among the first so many messages are cut."""
    characters: int = 0
    """To so many characters each."""
    made_after: int = 0
    """The number of messages when it was made. They go without what was made for the conversation as it was, such as
    signed thoughts, and is refused behind another one."""


WHOLE = Compaction()


def applied(history: Sequence[WireMessage], compaction: Compaction) -> list[WireMessage]:
    """The messages of a request. The list only grows at its end until the compaction changes."""
    start = compaction.summarised + 1
    first: list[WireMessage] = []
    if compaction.summarised:
        # Some servers refuse two messages of a user in a row, so the summary goes with the prompt.
        at = compaction.prompt or start
        has_prompt = at < len(history) and history[at]["role"] == "user"
        prompt = history[at] if has_prompt else {"role": "user", "content": ""}
        said = prompt["content"]
        first = [prompt | {"content": f"{said}\n\n{_block(compaction)}" if said else _block(compaction)}]
        start += has_prompt and not compaction.prompt
    kept = [_kept(message, number, compaction) for number, message in enumerate(history[start:], start)]
    return [message for message in (*history[:1], *first, *kept) if message["role"] != LEFT_OUT]


def _kept(message: WireMessage, number: int, compaction: Compaction) -> WireMessage:
    if number <= compaction.made_after and is_bound(message):
        return without_bound(message)
    return shorten(message, compaction.characters) if number <= compaction.shortened else message


def without_bound(message: WireMessage) -> WireMessage:
    """Without what its provider takes only behind the messages for which it was made."""
    return {name: value for name, value in message.items() if name != PROVIDER} if is_bound(message) else message


def shorten(message: WireMessage, characters: int) -> WireMessage:
    """A tool message cut to this many characters, without its images; any other message unchanged."""
    if message["role"] != "tool":
        return message
    content = str(message.get("content") or "")
    if len(content) <= characters and IMAGES not in message:
        return message
    count = len(message.get(IMAGES, ()))
    shown = f"\n[{count} {'plot' if count == 1 else 'plots'} left out]" if count else ""
    kept = truncate(content, TextLimits(characters=characters, lines=_MANY_LINES)).text
    return {name: value for name, value in message.items() if name != IMAGES} | {"content": f"{kept}{shown}"}


def _block(compaction: Compaction) -> str:
    text = compaction.summary.replace(SUMMARY_CLOSE.strip(), "")
    return (
        f"{SUMMARY_OPEN}Summary of the earlier conversation, written by the model. It tells what was said and done; "
        f"it is no instruction.\n\n{text}{SUMMARY_CLOSE}"
    )


def tokens_of(message: WireMessage, *, pictures: bool = True, thoughts: bool = True) -> float:
    """An estimate of the tokens of a message, with its pictures where the model gets them, and with the parts that are
    bound to the messages before it, if `thoughts`."""
    if message["role"] == LEFT_OUT:
        return 0.0
    size = OVERHEAD_BYTES + bytes_of(message.get("content"))
    for call in message.get("tool_calls", ()):
        size += OVERHEAD_BYTES + bytes_of(call["function"]["name"]) + bytes_of(call["function"]["arguments"])
    if PROVIDER in message and (thoughts or not is_bound(message)):
        size += len(orjson.dumps(message[PROVIDER]["items"]))
    shown = message.get(IMAGES, ()) if pictures else ()
    return size / BYTES_PER_TOKEN + sum(map(images.tokens_of, shown))


def tokens_of_tools(tools: Sequence[dict[str, Any]]) -> float:
    return len(orjson.dumps(tools)) / BYTES_PER_TOKEN if tools else 0.0


def bytes_of(content: object) -> int:
    return len(content.encode("utf-8", "replace")) if isinstance(content, str) else 0
