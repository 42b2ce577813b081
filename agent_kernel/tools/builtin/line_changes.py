"""Compares texts by lines in bounded time. difflib is quadratic, so it is used for small pieces only."""

import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

SECONDS = 0.5
"""The time limit. What has not been compared by then counts as replaced as a whole."""
_SMALL = 10_000
"""The largest piece for difflib: lines of one side times lines of the other."""


@dataclass(frozen=True, slots=True)
class Change:
    """Lines `start` to `end` (exclusive, from 0) of the old text are replaced by these lines of the new one."""

    start: int
    end: int
    new_start: int
    new_end: int


def changed_lines(before: Sequence[str], after: Sequence[str], seconds: float = SECONDS) -> list[Change]:
    """The changes in order. Long texts are split at lines that occur once in both (patience diff)."""
    deadline = time.monotonic() + seconds
    changes: list[Change] = []
    pending = [Change(0, len(before), 0, len(after))]
    while pending:
        piece = trimmed(before, after, pending.pop())
        if piece.start == piece.end and piece.new_start == piece.new_end:
            continue
        if piece.start == piece.end or piece.new_start == piece.new_end or time.monotonic() > deadline:
            changes.append(piece)
        elif (piece.end - piece.start) * (piece.new_end - piece.new_start) <= _SMALL:
            changes.extend(_compared(before, after, piece))
        elif pieces := list(_between_anchors(before, after, piece)):
            pending.extend(reversed(pieces))
        else:
            changes.append(piece)
    return changes


def edited_lines(
    text: str, old: str, new: str, before: Sequence[str], after: Sequence[str], most: int
) -> tuple[list[Change], int]:
    """The changes at the first `most` places where `old` is replaced by `new`, and the number of all places.

    `before` and `after` are the lines of the whole text before and after.
    """
    places: list[Change] = []
    longer = new.count("\n") - old.count("\n")
    line = shift = seen = taken = 0
    position = text.find(old)
    while position >= 0 and taken < most:
        line += text.count("\n", seen, position)
        seen = position
        last = line + old.count("\n")
        change = Change(line, last + 1, line + shift, last + 1 + shift + longer)
        if places and line < places[-1].end:
            earlier = places.pop()
            change = Change(earlier.start, change.end, earlier.new_start, change.new_end)
        places.append(change)
        shift += longer
        taken += 1
        position = text.find(old, position + len(old))
    return [change for place in places for change in _within(before, after, place)], taken


def _within(before: Sequence[str], after: Sequence[str], place: Change) -> Iterator[Change]:
    # A final line end does not begin another line.
    end, new_end = min(place.end, len(before)), min(place.new_end, len(after))
    for change in changed_lines(before[place.start : end], after[place.new_start : new_end], SECONDS / 10):
        yield Change(
            place.start + change.start,
            place.start + change.end,
            place.new_start + change.new_start,
            place.new_start + change.new_end,
        )


def trimmed(before: Sequence[str], after: Sequence[str], piece: Change) -> Change:
    """The piece without common lines at its start and end."""
    start, end, new_start, new_end = piece.start, piece.end, piece.new_start, piece.new_end
    while start < end and new_start < new_end and before[start] == after[new_start]:
        start, new_start = start + 1, new_start + 1
    while start < end and new_start < new_end and before[end - 1] == after[new_end - 1]:
        end, new_end = end - 1, new_end - 1
    return Change(start, end, new_start, new_end)


def _compared(before: Sequence[str], after: Sequence[str], piece: Change) -> Iterator[Change]:
    matcher = SequenceMatcher(
        None, before[piece.start : piece.end], after[piece.new_start : piece.new_end], autojunk=False
    )
    for tag, start, end, new_start, new_end in matcher.get_opcodes():
        if tag != "equal":
            yield Change(piece.start + start, piece.start + end, piece.new_start + new_start, piece.new_start + new_end)


def _between_anchors(before: Sequence[str], after: Sequence[str], piece: Change) -> Iterator[Change]:
    """The pieces between lines that occur once on each side and in the same order; none if there are no such lines."""
    start, new_start = piece.start, piece.new_start
    anchors = _in_both_orders(_pairs(before, after, piece))
    for line, new_line in anchors:
        yield Change(start, line, new_start, new_line)
        start, new_start = line + 1, new_line + 1
    if anchors:
        yield Change(start, piece.end, new_start, piece.new_end)


def _pairs(before: Sequence[str], after: Sequence[str], piece: Change) -> list[tuple[int, int]]:
    counts = Counter(before[piece.start : piece.end])
    new_counts = Counter(after[piece.new_start : piece.new_end])
    where = {after[at]: at for at in range(piece.new_start, piece.new_end) if new_counts[after[at]] == 1}
    return [
        (at, where[before[at]])
        for at in range(piece.start, piece.end)
        if counts[before[at]] == 1 and before[at] in where
    ]


def _in_both_orders(pairs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The longest subsequence of pairs whose second numbers rise; the first ones are sorted."""
    tops: list[int] = []
    series: list[int] = []
    behind: list[int] = []
    for index, (_, second) in enumerate(pairs):
        place = bisect_left(tops, second)
        behind.append(series[place - 1] if place else -1)
        tops[place : place + 1] = [second]
        series[place : place + 1] = [index]
    found: list[tuple[int, int]] = []
    at = series[-1] if series else -1
    while at >= 0:
        found.append(pairs[at])
        at = behind[at]
    return found[::-1]
