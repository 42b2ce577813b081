"""Makes the unified diff that a card shows: complete if it is short, else the first changes and what is omitted.

Lines that begin with a backslash are notes, such as that the file has no newline at its end.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from agent_kernel.tools.builtin.line_changes import Change

CONTEXT = 3
WHOLE_LINES = 1_000
"""The most lines of a diff that is shown completely, within `WHOLE_CHARACTERS`."""
WHOLE_CHARACTERS = 60_000
SHOWN_LINES = 120
"""The lines shown of a longer diff, each cut to `SHOWN_WIDTH`."""
SHOWN_WIDTH = 400
_LEAD = 100
"""The characters shown before the first difference in lines that are cut."""
PATH_CHARACTERS = 500

NO_FILE = "/dev/null"
"""The name of the old file in the diff of a new one."""


@dataclass(frozen=True, slots=True)
class ShownDiff:
    text: str
    left_out: str = ""
    """What is not shown, as a sentence; empty if everything is."""


def lines_of(text: str) -> list[str]:
    lines = text.split("\n")
    if lines[-1] == "":
        return lines[:-1]
    lines[-1] += "\n\\ No newline at end of file"
    return lines


def shown_diff(
    before: Sequence[str],
    after: Sequence[str],
    changes: Sequence[Change],
    path: str,
    *,
    created: bool = False,
    further: int = 0,
) -> ShownDiff:
    """Render the changes. `further` is the number of changes beyond these."""
    hunks = list(_hunks(changes))
    head = [f"--- {NO_FILE if created else path[:PATH_CHARACTERS]}", f"+++ {path[:PATH_CHARACTERS]}"]
    if not further and _is_short(before, after, hunks):
        writer = _Writer(before, after, WHOLE_LINES, None)
        for hunk in hunks:
            writer.write(hunk)
        return ShownDiff("\n".join([*head, *writer.lines]) if hunks else "")
    writer = _Writer(before, after, SHOWN_LINES, SHOWN_WIDTH)
    shown = 0
    for hunk in hunks:
        if writer.left <= 0:
            break
        shown += writer.write(hunk)
    more = len(changes) - shown + further
    parts = ["Long changes are shown in part."] if writer.cut else []
    if more:
        parts.append(f"And {more:,} more {'change' if more == 1 else 'changes'}.")
    return ShownDiff("\n".join([*head, *writer.lines]), " ".join(parts))


Hunk = list[Change]


def _hunks(changes: Sequence[Change]) -> Iterator[Hunk]:
    """Group changes whose context lines overlap."""
    hunk: Hunk = []
    for change in changes:
        if hunk and change.start - hunk[-1].end > 2 * CONTEXT:
            yield hunk
            hunk = []
        hunk.append(change)
    if hunk:
        yield hunk


def _is_short(before: Sequence[str], after: Sequence[str], hunks: Sequence[Hunk]) -> bool:
    count = characters = 0
    for hunk in hunks:
        first, last = max(0, hunk[0].start - CONTEXT), min(len(before), hunk[-1].end + CONTEXT)
        added = [(change.new_start, change.new_end) for change in hunk]
        count += last - first + sum(end - start for start, end in added)
        if count > WHOLE_LINES:
            return False
        characters += sum(map(len, before[first:last]))
        characters += sum(len(line) for start, end in added for line in after[start:end])
        if characters > WHOLE_CHARACTERS:
            return False
    return True


class _Writer:
    """Writes hunks up to a number of lines. Lines longer than `width` are cut."""

    def __init__(self, before: Sequence[str], after: Sequence[str], most: int, width: int | None) -> None:
        self._before = before
        self._after = after
        self._width = width
        self._most = most
        self.left = most
        self.lines: list[str] = []
        self.cut = False

    def write(self, hunk: Hunk) -> int:
        """Write as much of the hunk as fits. Returns how many of its changes were begun."""
        first = max(0, hunk[0].start - CONTEXT)
        new_first = hunk[0].new_start - (hunk[0].start - first)
        body: list[str] = []
        counts = [0, 0]
        at = first
        begun = 0
        whole = True
        for change in hunk:
            if not whole or not self._has_room(at, change):
                whole = False
                self.left = 0
                break
            self._context(body, counts, at, change.start)
            whole = self._change(body, counts, change)
            begun += 1
            at = change.end
        if not begun:
            return 0
        if whole:
            self._context(body, counts, at, min(len(self._before), at + CONTEXT))
        self.lines.append(f"@@ -{_span(first, counts[0])} +{_span(new_first, counts[1])} @@")
        self.lines.extend(body)
        return begun

    def _has_room(self, at: int, change: Change) -> bool:
        """Whether a part of a change is worth showing."""
        size = change.end - at + change.new_end - change.new_start
        return size <= self.left or self.left >= self._most // 2

    def _context(self, body: list[str], counts: list[int], start: int, end: int) -> None:
        for line in self._before[start:end]:
            body.append(" " + self._fitted(line, 0))
        counts[0] += end - start
        counts[1] += end - start
        self.left -= end - start

    def _change(self, body: list[str], counts: list[int], change: Change) -> bool:
        """False where it was cut: then the lines that follow are not those of the numbers that follow."""
        old, new = change.end - change.start, change.new_end - change.new_start
        room = max(2, self.left)
        removed = min(old, max(room // 2, room - new))
        added = min(new, max(room // 2, room - old))
        for index in range(removed):
            body.append("-" + self._fitted(self._before[change.start + index], self._difference(change, index)))
        if removed < old:
            body.append(f"\\ {old - removed:,} more {_lines(old - removed)} removed")
        for index in range(added):
            body.append("+" + self._fitted(self._after[change.new_start + index], self._difference(change, index)))
        if added < new:
            body.append(f"\\ {new - added:,} more {_lines(new - added)} added")
        counts[0] += removed
        counts[1] += added
        self.left -= removed + added
        whole = removed == old and added == new
        self.cut = self.cut or not whole
        return whole

    def _difference(self, change: Change, index: int) -> int:
        """The index at which two long lines begin to differ."""
        at, new_at = change.start + index, change.new_start + index
        if self._width is None or at >= change.end or new_at >= change.new_end:
            return 0
        one, other = self._before[at], self._after[new_at]
        if max(len(one), len(other)) <= self._width:
            return 0
        low, high = 0, min(len(one), len(other))
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if one[low:middle] == other[low:middle] else (low, middle - 1)
        return low

    def _fitted(self, line: str, difference: int) -> str:
        if self._width is None or len(line) <= self._width:
            return line
        self.cut = True
        start = max(0, difference - _LEAD)
        text = line[start : start + self._width].replace("\n", " ")
        before = f"[{start:,} characters] … " if start else ""
        after = len(line) - start - self._width
        return f"{before}{text}" + (f" … [{after:,} characters]" if after > 0 else "")


def _lines(count: int) -> str:
    return "line is" if count == 1 else "lines are"


def _span(first: int, count: int) -> str:
    """A range in a hunk's header: an empty side has the number of the line before it, and a count of one is omitted."""
    start = first + 1 if count else first
    return f"{start}" if count == 1 else f"{start},{count}"
