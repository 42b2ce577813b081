"""Makes the unified diff that a card shows: complete if it is short, else the first changes and what is omitted.

Lines that begin with a backslash are notes, such as that the file has no newline at its end.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest

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
    is_whole = not further and _is_short(before, after, hunks)
    most, width = (WHOLE_LINES, None) if is_whole else (SHOWN_LINES, SHOWN_WIDTH)
    lines: list[str] = []
    shown, cut = 0, False
    for hunk in hunks:
        piece = _Piece(before, after, hunk, most, most - len(lines), width)
        lines += piece.lines
        shown, cut = shown + piece.begun, cut or piece.cut
        if piece.begun < len(hunk) or piece.cut_short:
            break
    more = len(changes) - shown + further
    parts = ["Long changes are shown in part."] if cut else []
    if more:
        parts.append(f"And {more:,} more {'change' if more == 1 else 'changes'}.")
    return ShownDiff("\n".join([*head, *lines]) if hunks or further else "", " ".join(parts))


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


class _Piece:
    """A hunk within a number of lines. Lines longer than `width` are cut."""

    def __init__(
        self, before: Sequence[str], after: Sequence[str], hunk: Hunk, most: int, room: int, width: int | None
    ) -> None:
        self._before, self._after, self._width = before, after, width
        self.lines: list[str] = []
        self.begun = 0
        """How many changes of the hunk are shown, the last perhaps in part."""
        self.cut = False
        """Whether something of them is not shown."""
        self.cut_short = False
        """Whether that is the end of a change: what followed would not have the numbers of the header."""
        first = at = max(0, hunk[0].start - CONTEXT)
        for change in hunk:
            left = room - len(self.lines) - (change.start - at)
            size = change.end - change.start + change.new_end - change.new_start
            if self.cut_short or (size > left < most // 2):  # too little of it would be shown
                break
            self._add(" ", before[at : change.start])
            self._change(change, max(2, left))
            self.begun, at = self.begun + 1, change.end
        else:
            self._add(" ", () if self.cut_short else before[at : at + CONTEXT])
        if self.begun:
            counts = [sum(line[0] in signs for line in self.lines) for signs in (" -", " +")]
            new_first = hunk[0].new_start - (hunk[0].start - first)
            self.lines.insert(0, f"@@ -{_span(first, counts[0])} +{_span(new_first, counts[1])} @@")

    def _change(self, change: Change, room: int) -> None:
        old, new = self._before[change.start : change.end], self._after[change.new_start : change.new_end]
        for sign, lines, others, done in (("-", old, new, "removed"), ("+", new, old, "added")):
            count = min(len(lines), max(room // 2, room - len(others)))
            self._add(sign, lines[:count], others)
            if count < len(lines):
                left = len(lines) - count
                self.lines.append(f"\\ {left:,} more {'line is' if left == 1 else 'lines are'} {done}")
                self.cut = self.cut_short = True

    def _add(self, sign: str, lines: Sequence[str], others: Sequence[str] = ()) -> None:
        for line, other in zip_longest(lines, others[: len(lines)], fillvalue=""):
            self.lines.append(sign + self._fitted(line, other))

    def _fitted(self, line: str, other: str) -> str:
        """A long line from where it begins to differ from the one that it replaces."""
        if self._width is None or len(line) <= self._width:
            return line
        self.cut = True
        start = max(0, _common(line, other) - _LEAD)
        text = line[start : start + self._width].replace("\n", " ")
        before = f"[{start:,} characters] … " if start else ""
        after = len(line) - start - self._width
        return f"{before}{text}" + (f" … [{after:,} characters]" if after > 0 else "")


def _common(one: str, other: str) -> int:
    """How many characters two lines begin with alike. By halves: a line may have many megabytes."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if one[low:middle] == other[low:middle] else (low, middle - 1)
    return low


def _span(first: int, count: int) -> str:
    """A range in a hunk's header: an empty side has the number of the line before it, and a count of one is omitted."""
    start = first + 1 if count else first
    return f"{start}" if count == 1 else f"{start},{count}"
