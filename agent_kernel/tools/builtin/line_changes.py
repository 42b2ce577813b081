"""Compares texts by lines in bounded time, by difflib."""

import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from difflib import Match, SequenceMatcher
from typing import Literal

SECONDS = 1.0
"""The limit of CPU time. What has not been compared by then counts as replaced as a whole."""
_MOST_STEPS = 2_000_000
"""Of one search for common lines: they may repeat, so that each line may have many equal ones."""

Change = tuple[Literal["equal", "replace", "delete", "insert"], int, int, int, int]
"""An opcode of difflib: `equal`, `replace`, `delete` or `insert`, lines of the old text, and lines of the new one."""


class _Bounded(SequenceMatcher[str]):
    def __init__(self, before: Sequence[str], after: Sequence[str]) -> None:
        super().__init__(None, before, after)
        self._deadline = time.thread_time() + SECONDS

    def find_longest_match(self, alo: int = 0, ahi: int | None = None, blo: int = 0, bhi: int | None = None) -> Match:
        if time.thread_time() > self._deadline:
            raise TimeoutError
        return super().find_longest_match(alo, ahi, blo, bhi)


def compared(before: Sequence[str], after: Sequence[str]) -> list[Change]:
    """The changes between two texts, and what is equal between them, in order."""
    start, end, new_end = trimmed(before, after)
    old, new = before[start:end], after[start:new_end]
    middle: list[Change] = [("replace", 0, len(old), 0, len(new))]
    counts = Counter(new)
    if sum(counts[line] for line in old) <= _MOST_STEPS:
        with suppress(TimeoutError):
            middle = list(_Bounded(old, new).get_opcodes())
    moved = [(tag, at + start, to + start, new_at + start, new_to + start) for tag, at, to, new_at, new_to in middle]
    ends: list[Change] = [("equal", 0, start, 0, start), ("equal", end, len(before), new_end, len(after))]
    return [one for one in (ends[0], *moved, ends[1]) if one[1] < one[2] or one[3] < one[4]]


def trimmed(before: Sequence[str], after: Sequence[str]) -> tuple[int, int, int]:
    """Where two texts begin to differ, and where the old and the new one end to: without common lines at their start
    and end."""
    start, end, new_end = 0, len(before), len(after)
    while start < min(end, new_end) and before[start] == after[start]:
        start += 1
    while min(end, new_end) > start and before[end - 1] == after[new_end - 1]:
        end, new_end = end - 1, new_end - 1
    return start, end, new_end
