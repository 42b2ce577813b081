"""What a request leaves out of a conversation that is too long for the model. Pure: the log keeps everything.

The oldest tool results are shortened first. Where that is not enough, a summary stands in for the older messages. Each
time so much is saved that the next requests fit as they are: the beginning of a request stays the same from one such
moment to the next, and a provider's cache of it stays of use.

Messages are counted from the first of the conversation, which has the number 1, as in the log; in a history the system
prompt stands before it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import orjson

from agent_kernel.models import images
from agent_kernel.models.base import IMAGES, PROVIDER, SUMMARY_CLOSE, SUMMARY_OPEN, WireMessage
from agent_kernel.tools.truncation import TextLimits, truncate

BYTES_PER_TOKEN = 3.5
"""Of prose, code and tables together. What a service reports corrects it: see `Window`."""
RESULT_CHARACTERS = 1_000
"""What is left of an older tool result."""
_LEAST_RESULT = 200
"""What is left of one where the last step alone is too long."""
_SHORTENED_TO, _KEPT = 0.6, 0.3
"""Parts of what a request may have: what it has at most once results were shortened, and what is kept as it is of the
newest messages where a summary stands in for the rest."""
_SUMMARY_PART, _SUMMARY_TOKENS = 0.15, 2_000
_BLOCK_TOKENS = 60
"""Of the words around a summary."""
_OVERHEAD_BYTES = 24
"""Of a message, and of a call: what frames it."""
_MANY_LINES = 1_000_000

LEFT_OUT = "left_out"
"""The role of what stands in a history for a message of a run whose cell was run again. No request has it."""


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
    """So many messages had been said when it was made. They go without what only their provider can read, such as
    signed thoughts: that was made for the conversation as it was, and is refused behind another one."""


WHOLE = Compaction()


def head(history: Sequence[WireMessage], compaction: Compaction) -> tuple[list[WireMessage], int]:
    """What stands in for the beginning of a history, without the system prompt, and where the rest of it begins."""
    start = compaction.summarised + 1
    end = max(start, compaction.shortened + 1, compaction.made_after + 1)
    if compaction.summarised:
        # Some servers refuse two messages of a user in a row, so the summary goes with the prompt.
        at = compaction.prompt or start
        has_prompt = at < len(history) and history[at]["role"] == "user"
        prompt = history[at] if has_prompt else {"role": "user", "content": ""}
        said = prompt["content"]
        first = [prompt | {"content": f"{said}\n\n{_block(compaction)}" if said else _block(compaction)}]
        if has_prompt and not compaction.prompt:
            start += 1
            end = max(start, end)
    else:
        first = []
    kept = [_kept(message, number, compaction) for number, message in enumerate(history[start:end], start)]
    return [*first, *kept], end


def _kept(message: WireMessage, number: int, compaction: Compaction) -> WireMessage:
    if number <= compaction.made_after and PROVIDER in message:
        return without_provider(message)
    return shorten(message, compaction.characters) if number <= compaction.shortened else message


def without_provider(message: WireMessage) -> WireMessage:
    """Without what only its provider can read."""
    return {name: value for name, value in message.items() if name != PROVIDER} if PROVIDER in message else message


def apply(history: Sequence[WireMessage], compaction: Compaction) -> list[WireMessage]:
    """The history as the model gets it."""
    first, end = head(history, compaction)
    return [*history[:1], *first, *history[end:]]


def shorten(message: WireMessage, characters: int) -> WireMessage:
    """A tool message cut to so many characters, without its images; any other as it is."""
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
    """About how many tokens a message has: its pictures too where the model is given them, and what only its provider
    can read."""
    if message["role"] == LEFT_OUT:
        return 0.0
    size = _OVERHEAD_BYTES + _bytes(message.get("content"))
    for call in message.get("tool_calls", ()):
        size += _OVERHEAD_BYTES + _bytes(call["function"]["name"]) + _bytes(call["function"]["arguments"])
    if thoughts and PROVIDER in message:
        size += len(orjson.dumps(message[PROVIDER]["items"]))
    shown = message.get(IMAGES, ()) if pictures else ()
    return size / BYTES_PER_TOKEN + sum(map(images.tokens_of, shown))


def tokens_of_tools(tools: Sequence[dict[str, Any]]) -> float:
    return len(orjson.dumps(tools)) / BYTES_PER_TOKEN if tools else 0.0


def _bytes(content: object) -> int:
    return len(content.encode("utf-8", "replace")) if isinstance(content, str) else 0


def summary_tokens(limit: float) -> float:
    """How long a summary may be."""
    return min(_SUMMARY_TOKENS, limit * _SUMMARY_PART)


def last_step(history: Sequence[WireMessage]) -> int:
    """Where that begins which the model has to answer now: its last calls with their results, or a prompt."""
    at = len(history) - 1
    while at > 1 and history[at]["role"] != "assistant":
        at -= 1
    if history[at]["role"] == "assistant" and not history[at].get("tool_calls"):
        at += 1
    return max(1, min(at, len(history) - 1))


def plan(
    history: Sequence[WireMessage], now: Compaction, fixed: float, limit: float, *, pictures: bool = True
) -> Compaction:
    """How to shorten a history of which `fixed` tokens are not messages, so that the request has at most `limit`.

    Where `summarised` grew, the summary is still to be written. `now` where nothing can be shortened that was not.
    """
    found = _plan(history, now, fixed, limit, pictures)
    has_thoughts = any(PROVIDER in message for message in history[max(now.summarised, now.made_after) + 1 :])
    return replace(found, made_after=len(history) - 1) if found != now or has_thoughts else now


def _plan(history: Sequence[WireMessage], now: Compaction, fixed: float, limit: float, pictures: bool) -> Compaction:
    last = last_step(history)
    sizes = [0.0, *(tokens_of(message, pictures=pictures, thoughts=False) for message in history[1:])]
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


def least(history: Sequence[WireMessage], fixed: float, *, pictures: bool = True) -> float:
    """What a request has at least, about: what can't be left out."""
    return fixed + tokens_of(history[_prompt(history)], pictures=pictures)


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
    """As many of the oldest results as it takes, of those before the last step."""
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
    bytes_per_character = max(_bytes(content) / max(1, len(content)) for content in contents)
    share = int((room * BYTES_PER_TOKEN / len(results) - 2 * _OVERHEAD_BYTES) / max(1.0, bytes_per_character))
    characters = max(_LEAST_RESULT, min(share, compaction.characters or share))
    cut = replace(compaction, shortened=results[-1], characters=characters)
    saves = any(_size(history, sizes, cut, number) < _size(history, sizes, compaction, number) for number in results)
    return cut if saves else compaction
