"""Shortened conversations, for models whose context is too small: how one is planned, and applied. Pure; the log keeps
everything.

What is older than the newest steps is shortened: its tool results first; where that is not enough, a summary stands in
for it. Each time so much is saved that the next requests fit as they are: the beginning of a request stays the same
from one such moment to the next, and a provider's cache of it stays of use.

Messages are counted from the first of the conversation, which has the number 1, as in the log; in a history the system
prompt stands before it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
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
    changed_to = max(start, compaction.made_after + 1, compaction.shortened + 1)
    changed = [_kept(message, number, compaction) for number, message in enumerate(history[start:changed_to], start)]
    whole = (*history[:1], *first, *changed, *history[changed_to:])
    return [message for message in whole if message["role"] != LEFT_OUT]


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


RESULT_CHARACTERS = 1_000
"""The placeholder for an older tool result."""
_LEAST_RESULT = 200
"""The placeholder for one of the last step, where that alone is too long."""
_SHORTENED_TO, _KEPT = 0.6, 0.3
"""Parts of what a request may have: what it has at most where shorter results are enough, and what is kept as it is of
the newest messages."""
_SUMMARY_PART, _SUMMARY_TOKENS = 0.15, 2_000
_BLOCK_TOKENS = 60
"""Of the words around a summary."""


def summary_tokens(limit: float) -> float:
    """The longest summary."""
    return min(_SUMMARY_TOKENS, limit * _SUMMARY_PART)


def last_step(history: Sequence[WireMessage]) -> int:
    """The first message that the model has to answer now: its last calls with their results, or a prompt."""
    at = len(history) - 1
    while at > 1 and history[at]["role"] != "assistant":
        at -= 1
    if history[at]["role"] == "assistant" and not history[at].get("tool_calls"):
        at += 1
    return max(1, min(at, len(history) - 1))


def plan(
    history: Sequence[WireMessage], now: Compaction, fixed: float, limit: float, *, pictures: bool = True
) -> Compaction:
    """Plan how to shorten a history of which `fixed` tokens are not messages, so that the request has at most `limit`.

    Where `summarised` grew, the summary is still to be written. `now` where nothing can be shortened that was not.
    """
    found = _plan(_sized(history, fixed, limit, pictures), now)
    has_thoughts = any(is_bound(message) for message in history[max(now.summarised, now.made_after) + 1 :])
    return replace(found, made_after=len(history) - 1) if found != now or has_thoughts else now


def planned(
    history: Sequence[WireMessage], compaction: Compaction, fixed: float, limit: float, *, pictures: bool = True
) -> float:
    """The estimated size of the request that a plan leads to, with its summary."""
    return _sized(history, fixed, limit, pictures).total(compaction)


def least(history: Sequence[WireMessage], fixed: float, *, pictures: bool = True) -> float:
    """The estimated size of what can't be left out of a request."""
    return fixed + tokens_of(history[_prompt(history)], pictures=pictures)


def _prompt(history: Sequence[WireMessage]) -> int:
    """The message of a user that came last."""
    return max((number for number in range(1, len(history)) if history[number]["role"] == "user"), default=0)


@dataclass(frozen=True, slots=True)
class _Sized:
    """A history with the estimated size of each message: without the system prompt, which is `fixed`, and without
    thoughts, which a compaction drops."""

    history: Sequence[WireMessage]
    sizes: Sequence[float]
    fixed: float
    limit: float

    def size(self, number: int, compaction: Compaction) -> float:
        if number > compaction.shortened or self.history[number]["role"] != "tool":
            return self.sizes[number]
        return min(self.sizes[number], tokens_of(shorten(self.history[number], compaction.characters)))

    def total(self, compaction: Compaction) -> float:
        summary = summary_tokens(self.limit) + _BLOCK_TOKENS if compaction.summarised else 0.0
        prompt = self.sizes[compaction.prompt] if compaction.prompt else 0.0
        numbers = range(compaction.summarised + 1, len(self.history))
        return self.fixed + summary + prompt + sum(self.size(number, compaction) for number in numbers)


def _sized(history: Sequence[WireMessage], fixed: float, limit: float, pictures: bool) -> _Sized:
    sizes = [0.0, *(tokens_of(message, pictures=pictures, thoughts=False) for message in history[1:])]
    return _Sized(history, sizes, fixed, limit)


def _plan(sized: _Sized, now: Compaction) -> Compaction:
    first = _first_kept(sized, now)
    characters = min(now.characters or RESULT_CHARACTERS, RESULT_CHARACTERS)
    found = replace(now, shortened=max(now.shortened, first - 1), characters=characters)
    if sized.total(found) >= sized.total(now):
        found = now
    if sized.total(found) <= sized.limit * _SHORTENED_TO:
        return found
    if first - 1 > now.summarised:
        kept, prompt = now.shortened >= first, _prompt(sized.history)
        found = Compaction(
            summarised=first - 1,
            summary=now.summary,
            prompt=prompt if prompt < first else 0,
            shortened=now.shortened if kept else 0,
            characters=now.characters if kept else 0,
        )
    excess = sized.total(found) - sized.limit
    return _shorten_last(sized, found, excess) if excess > 0 else found


def _first_kept(sized: _Sized, now: Compaction) -> int:
    """The first message that is kept as it is: the last step, and before it as many whole steps as there is room
    for."""
    history, last = sized.history, last_step(sized.history)
    room = sized.limit * _KEPT - sum(sized.size(number, now) for number in range(last, len(history)))
    first, size = last, 0.0
    for number in range(last - 1, now.summarised, -1):
        size += sized.size(number, now)
        if size > room:
            break
        if history[number]["role"] != "tool":
            first = number
    return first


def _shorten_last(sized: _Sized, compaction: Compaction, excess: float) -> Compaction:
    """The results of the last step too, each to its share, because nothing else is left."""
    history = sized.history
    results = [n for n in range(compaction.summarised + 1, len(history)) if history[n]["role"] == "tool"]
    if not results:
        return compaction
    room = sum(sized.size(number, compaction) for number in results) - excess
    contents = [str(history[number].get("content") or "") for number in results]
    bytes_per_character = max(bytes_of(content) / max(1, len(content)) for content in contents)
    share = int((room * BYTES_PER_TOKEN / len(results) - 2 * OVERHEAD_BYTES) / max(1.0, bytes_per_character))
    characters = max(_LEAST_RESULT, min(share, compaction.characters or share))
    cut = replace(compaction, shortened=results[-1], characters=characters)
    return cut if sized.total(cut) < sized.total(compaction) else compaction
