"""Plans how a conversation that is too long for the model is shortened. Pure.

The oldest tool results are shortened first. Where that is not enough, a summary stands in for the older messages. Each
time so much is saved that the next requests fit as they are: the beginning of a request stays the same from one such
moment to the next, and a provider's cache of it stays of use.
"""

from collections.abc import Sequence
from dataclasses import replace

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
"""Parts of what a request may have: what it has at most once results were shortened, and what is kept as it is of the
newest messages where a summary stands in for the rest."""
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
    found = _plan(history, now, fixed, limit, pictures)
    has_thoughts = any(is_bound(message) for message in history[max(now.summarised, now.made_after) + 1 :])
    return replace(found, made_after=len(history) - 1) if found != now or has_thoughts else now


def _plan(history: Sequence[WireMessage], now: Compaction, fixed: float, limit: float, pictures: bool) -> Compaction:
    last = last_step(history)
    sizes = _sizes(history, pictures)
    shortened = _shorten_results(history, sizes, now, last, fixed, limit)
    total = _total(history, sizes, shortened, fixed, limit)
    if total <= limit * _SHORTENED_TO:
        return shortened
    first = _first_kept(history, sizes, now, last, limit)
    if first - 1 > now.summarised:
        kept = now.shortened >= first
        prompt = _prompt(history)
        shortened = Compaction(
            summarised=first - 1,
            summary=now.summary,
            prompt=prompt if prompt < first else 0,
            shortened=now.shortened if kept else 0,
            characters=now.characters if kept else 0,
        )
        total = _total(history, sizes, shortened, fixed, limit)
    return shortened if total <= limit else _shorten_last(history, sizes, shortened, total - limit)


def planned(
    history: Sequence[WireMessage], compaction: Compaction, fixed: float, limit: float, *, pictures: bool = True
) -> float:
    """The estimated size of the request that a plan leads to, with its summary."""
    return _total(history, _sizes(history, pictures), compaction, fixed, limit)


def least(history: Sequence[WireMessage], fixed: float, *, pictures: bool = True) -> float:
    """The estimated size of what can't be left out of a request."""
    return fixed + tokens_of(history[_prompt(history)], pictures=pictures)


def _sizes(history: Sequence[WireMessage], pictures: bool) -> list[float]:
    """Of each message; without the system prompt, which is fixed, and without thoughts, which a compaction drops."""
    return [0.0, *(tokens_of(message, pictures=pictures, thoughts=False) for message in history[1:])]


def _prompt(history: Sequence[WireMessage]) -> int:
    """The message of a user that came last."""
    return max((number for number in range(1, len(history)) if history[number]["role"] == "user"), default=0)


def _total(
    history: Sequence[WireMessage], sizes: Sequence[float], compaction: Compaction, fixed: float, limit: float
) -> float:
    standing = summary_tokens(limit) + _BLOCK_TOKENS if compaction.summarised else 0.0
    prompt = sizes[compaction.prompt] if compaction.prompt else 0.0
    numbers = range(compaction.summarised + 1, len(history))
    return fixed + standing + prompt + sum(_size(history, sizes, compaction, number) for number in numbers)


def _size(history: Sequence[WireMessage], sizes: Sequence[float], compaction: Compaction, number: int) -> float:
    if number > compaction.shortened or history[number]["role"] != "tool":
        return sizes[number]
    return min(sizes[number], tokens_of(shorten(history[number], compaction.characters)))


def _shorten_results(
    history: Sequence[WireMessage], sizes: Sequence[float], now: Compaction, last: int, fixed: float, limit: float
) -> Compaction:
    """The oldest results, as many as have to go, of those before the last step."""
    characters = min(now.characters or RESULT_CHARACTERS, RESULT_CHARACTERS)
    found = replace(now, characters=characters) if now.shortened else now
    total = _total(history, sizes, found, fixed, limit)
    for number in range(max(now.summarised, now.shortened) + 1, last):
        if total <= limit * _SHORTENED_TO:
            break
        if history[number]["role"] != "tool":
            continue
        wanted = replace(now, shortened=number, characters=characters)
        saved = sizes[number] - _size(history, sizes, wanted, number)
        if saved > 0:
            total, found = total - saved, wanted
    return found


def _first_kept(
    history: Sequence[WireMessage], sizes: Sequence[float], now: Compaction, last: int, limit: float
) -> int:
    """The first message that no summary stands in for: the last step, and before it as many whole steps as there is
    room for."""
    room = limit * _KEPT - sum(_size(history, sizes, now, number) for number in range(last, len(history)))
    first, size = last, 0.0
    for number in range(last - 1, now.summarised, -1):
        size += _size(history, sizes, now, number)
        if size > room:
            break
        if history[number]["role"] != "tool":
            first = number
    return first


def _shorten_last(
    history: Sequence[WireMessage], sizes: Sequence[float], compaction: Compaction, excess: float
) -> Compaction:
    """The results of the last step too, each to its share, because nothing else is left."""
    results = [n for n in range(compaction.summarised + 1, len(history)) if history[n]["role"] == "tool"]
    if not results:
        return compaction
    room = sum(_size(history, sizes, compaction, number) for number in results) - excess
    contents = [str(history[number].get("content") or "") for number in results]
    bytes_per_character = max(bytes_of(content) / max(1, len(content)) for content in contents)
    share = int((room * BYTES_PER_TOKEN / len(results) - 2 * OVERHEAD_BYTES) / max(1.0, bytes_per_character))
    characters = max(_LEAST_RESULT, min(share, compaction.characters or share))
    cut = replace(compaction, shortened=results[-1], characters=characters)
    saves = any(_size(history, sizes, cut, number) < _size(history, sizes, compaction, number) for number in results)
    return cut if saves else compaction
