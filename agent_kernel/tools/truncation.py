"""Shortens long texts for the model: the start, a line that says what is left out, and the end."""

from dataclasses import dataclass
from pathlib import Path

_LINE = 2000
_CUT = "..."


@dataclass(frozen=True, slots=True)
class TextLimits:
    characters: int = 25_000
    lines: int = 1_000


@dataclass(frozen=True, slots=True)
class Truncated:
    text: str
    truncated: bool


def truncate(text: str, limits: TextLimits = TextLimits(), output_file: Path | str | None = None) -> Truncated:
    """Shorten a text to its limits, including the separator line. Linear in the text's size.

    One fifth of what is kept is the start and four fifths the end, where errors and results are. Over-long lines are
    cut with `...`. A text that would not get shorter is returned unchanged.
    """
    lines = text.split("\n")
    if len(text) <= limits.characters and len(lines) <= limits.lines:
        return Truncated(text, False)
    # The separator's length is bounded by its text with the largest possible counts.
    room = max(0, limits.characters - len(_separator(len(lines), len(text), output_file)) - 2)
    keep = max(2, limits.lines - 1)
    head_lines = max(1, keep // 5)
    longest = max(_LINE, limits.characters // len(lines))
    head = _first(lines[:head_lines], room // 5, longest)
    rest = lines[head_lines:] if len(lines) > 1 else lines
    tail = _last(rest[-(keep - head_lines) :], room - len(head), longest)
    kept_lines = head.count("\n") + tail.count("\n") + 2
    middle = _separator(max(0, len(lines) - kept_lines), len(text) - len(head) - len(tail), output_file)
    shortened = f"{head}\n{middle}\n{tail}"
    return Truncated(shortened, True) if len(shortened) < len(text) else Truncated(text, False)


def _separator(lines: int, characters: int, output_file: Path | str | None) -> str:
    where = f" The output is in {output_file}, up to 50 MB of it: read more with read_file." if output_file else ""
    return f"... [{lines:,} lines, {characters:,} characters left out here.{where}] ..."


def _first(lines: list[str], room: int, longest: int) -> str:
    kept: list[str] = []
    for line in lines:
        line = line if len(line) <= longest else line[: longest - len(_CUT)] + _CUT
        if len(line) > room:
            if room > len(_CUT):
                kept.append(line[: room - len(_CUT)] + _CUT)
            break
        kept.append(line)
        room -= len(line) + 1
    return "\n".join(kept)


def _last(lines: list[str], room: int, longest: int) -> str:
    kept: list[str] = []
    for line in reversed(lines):
        line = line if len(line) <= longest or longest > room else line[: longest - len(_CUT)] + _CUT
        if len(line) > room:
            if room > len(_CUT):
                kept.append(_CUT + line[len(line) - room + len(_CUT) :])
            break
        kept.append(line)
        room -= len(line) + 1
    return "\n".join(reversed(kept))
