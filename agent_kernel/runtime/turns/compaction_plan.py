"""Plans how a conversation that is too long for the model is shortened. Pure.

What is older than the newest steps is shortened: its tool results first; where that is not enough, a summary stands in
for it. Each time so much is saved that the next requests fit as they are: the beginning of a request stays the same
from one such moment to the next, and a provider's cache of it stays of use.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from agent_kernel.models.base import WireMessage
from agent_kernel.models.provider_items import is_bound
from agent_kernel.runtime.state.compaction import (
    BYTES_PER_TOKEN,
    OVERHEAD_BYTES,
    Compaction,
    bytes_of,
    shorten,
    tokens_of,
)

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
