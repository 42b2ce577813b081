"""Makes the unified diff that a card shows: complete if it is short, else the first changes and what is omitted.

Lines that begin with a backslash are notes, such as that the file has no newline at its end.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import zip_longest

from agent_kernel.tools.builtin.line_changes import Change, compared

WHOLE_LINES = 1_000
"""The most lines of a diff that is shown completely, within `WHOLE_CHARACTERS`."""
WHOLE_CHARACTERS = 60_000
SHOWN_LINES = 120
"""The lines shown of a longer diff, about, each cut to `SHOWN_WIDTH`."""
SHOWN_WIDTH = 400
_CONTEXT = 3
_LEAD = 100
"""The characters shown before the first difference in lines that are cut."""
_PATH_CHARACTERS = 500
_NO_FILE = "/dev/null"
"""The name of the old file in the diff of a new one."""


@dataclass(frozen=True, slots=True)
class ShownDiff:
    text: str
    left_out: str = ""
    """What is not shown, as a sentence; empty if everything is."""


def shown_diff(before: str, after: str, path: str, *, created: bool = False) -> ShownDiff:
    old, new = _lines_of(before), _lines_of(after)
    hunks = [_Hunk(old, new, changes) for changes in _Grouped(compared(old, new)).get_grouped_opcodes(_CONTEXT)]
    if not hunks or not (old or new):
        return ShownDiff("")
    head = [f"--- {_NO_FILE if created else path[:_PATH_CHARACTERS]}", f"+++ {path[:_PATH_CHARACTERS]}"]
    lines = [line for hunk in hunks for line in hunk.lines()]
    if len(lines) <= WHOLE_LINES and sum(map(len, lines)) <= WHOLE_CHARACTERS:
        return ShownDiff("\n".join([*head, *lines]))
    lines, shown = [], 0
    for hunk in hunks:
        if len(lines) >= SHOWN_LINES:
            break
        lines += hunk.lines(SHOWN_LINES - len(lines), SHOWN_WIDTH)
        shown += hunk.begun
    parts = ["Long changes are shown in part."] if any(hunk.is_partial for hunk in hunks) else []
    if more := sum(hunk.count for hunk in hunks) - shown:
        parts.append(f"And {more:,} more {'change' if more == 1 else 'changes'}.")
    return ShownDiff("\n".join([*head, *lines]), " ".join(parts))


class _Grouped(SequenceMatcher[str]):
    """Has difflib group changes with their context."""

    def __init__(self, changes: list[Change]) -> None:
        super().__init__()
        self._changes = changes

    def get_opcodes(self) -> list[Change]:
        return list(self._changes)


class _Hunk:
    def __init__(
        self, old: Sequence[str], new: Sequence[str], changes: Sequence[tuple[str, int, int, int, int]]
    ) -> None:
        self._old, self._new, self._changes = old, new, changes
        self.count = sum(tag != "equal" for tag, *_ in changes)
        self.begun = 0
        """How many changes are shown, the last perhaps in part."""
        self.is_cut = self.is_partial = False
        """Whether lines of a change are left out; and whether those or parts of lines are."""

    def lines(self, most: int | None = None, width: int | None = None) -> list[str]:
        """Its lines; about `most`, none of them longer than `width`."""
        lines: list[str] = []
        self.begun = 0
        _, first, _, new_first, _ = self._changes[0]
        for tag, start, end, new_start, new_end in self._changes:
            if self.is_cut or (most is not None and len(lines) >= most):
                break  # what followed would not have the numbers of the header
            old, new = self._old[start:end], self._new[new_start:new_end]
            if tag == "equal":
                lines += self._side(" ", old, (), None, width)
            else:
                self.begun += 1
                lines += self._side("-", old, new, most, width)
                lines += self._side("+", new, old, most, width)
        counts = [sum(line[0] in signs for line in lines) for signs in (" -", " +")]
        return [f"@@ -{_span(first, counts[0])} +{_span(new_first, counts[1])} @@", *lines]

    def _side(
        self, sign: str, lines: Sequence[str], others: Sequence[str], most: int | None, width: int | None
    ) -> list[str]:
        """The lines of one side of a change, at most half of `most` or what the other side leaves of it."""
        count = len(lines) if most is None else min(len(lines), max(most // 2, most - len(others), 1))
        pairs = zip_longest(lines[:count], others[:count], fillvalue="")
        shown = [sign + (line if width is None else self._fitted(line, other, width)) for line, other in pairs]
        if count < len(lines):
            self.is_cut = self.is_partial = True
            left, done = len(lines) - count, "removed" if sign == "-" else "added"
            shown.append(f"\\ {left:,} more {'line is' if left == 1 else 'lines are'} {done}")
        return shown

    def _fitted(self, line: str, other: str, width: int) -> str:
        """A long line from where it begins to differ from the one that it replaces."""
        if len(line) <= width:
            return line
        self.is_partial = True
        alike = next((at for at, (one, two) in enumerate(zip(line, other, strict=False)) if one != two), len(other))
        start = max(0, alike - _LEAD)
        text = line[start : start + width].replace("\n", " ")
        before = f"[{start:,} characters] … " if start else ""
        after = len(line) - start - width
        return f"{before}{text}" + (f" … [{after:,} characters]" if after > 0 else "")


def _lines_of(text: str) -> list[str]:
    lines = text.split("\n")
    if lines[-1] == "":
        return lines[:-1]
    lines[-1] += "\n\\ No newline at end of file"
    return lines


def _span(first: int, count: int) -> str:
    """A range in a hunk's header: an empty side has the number of the line before it, and a count of one is omitted."""
    start = first + 1 if count else first
    return f"{start}" if count == 1 else f"{start},{count}"
