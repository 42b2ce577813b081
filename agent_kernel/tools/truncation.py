"""Shortens long texts for the model, and writes long outputs to files that the shortened text names."""

import contextlib
import os
import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import BinaryIO

from platformdirs import user_cache_path

from agent_kernel.protocol.figures import left_out

SPILL_BYTES = 50 * 1024 * 1024
KEPT_AGE = timedelta(days=7)
KEPT_BYTES = 500 * 1024 * 1024
_MOST_FILES = 10_000
_PIECE = 1024 * 1024
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}-[0-9a-f]{16}\.txt")
_LINE = 2000
_CUT = "..."
_SEPARATOR = 500
"""Characters that are kept free for a separator. What is left out of a text must not depend on the path of its file,
which is longer on some machines: a recording made there has to fit here."""


@dataclass(frozen=True, slots=True)
class TextLimits:
    characters: int = 25_000
    lines: int = 1_000


@dataclass(frozen=True, slots=True)
class Shortened:
    text: str
    truncated: bool
    output_file: Path | str | None = None
    """The file with the whole output, if one was written."""


def cut_line(line: str, most: int) -> str:
    """A line in at most so many characters: its start and its end, and between them how much it left out."""
    if len(line) <= most:
        return line
    kept = max(0, most - len(_within(len(line))))
    start, end = line[: kept // 2], line[len(line) - kept + kept // 2 :]
    return f"{start}{_within(len(line) - kept)}{end}"


def _within(characters: int) -> str:
    return f"{_CUT} [{left_out(0, characters)}] {_CUT}"


def truncate(text: str, limits: TextLimits = TextLimits(), output_file: Path | str | None = None) -> Shortened:
    """Shorten a text to its limits, including the separator line. Linear in the text's size.

    One fifth of what is kept is the start and four fifths the end, where errors and results are. Each cut says what it
    left out: the separator, and `cut_line`. A text that would not get shorter is returned unchanged.
    """
    lines = text.split("\n")
    if len(text) <= limits.characters and len(lines) - text.endswith("\n") <= limits.lines:
        return Shortened(text, False)
    # The separator's length is bounded by its text with the largest possible counts.
    separator = len(_separator(len(lines), len(text), output_file))
    room = max(0, limits.characters - max(separator, min(_SEPARATOR, limits.characters // 20)) - 2)
    keep = max(2, limits.lines - 1)
    longest = min(max(_LINE, limits.characters // len(lines)), room * 4 // 5)
    head = _fitting(lines[: max(1, keep // 5)], room // 5, longest)
    rest = lines[len(head) :]
    tail = _fitting(rest[: -(keep - len(head)) - 1 : -1], room - sum(map(len, head)) - len(head), longest)[::-1]
    hidden = rest[: len(rest) - len(tail)]
    gone = _separator(len(hidden), sum(map(len, hidden)) + len(hidden), output_file)
    shortened = "\n".join([*head, gone, *tail])
    return Shortened(shortened, True) if len(shortened) < len(text) else Shortened(text, False)


def _fitting(lines: Sequence[str], room: int, longest: int) -> list[str]:
    """The first of these lines that fit into the room, each cut if it is longer than `longest`."""
    kept: list[str] = []
    for line in lines:
        shown = cut_line(line, longest)
        room -= len(shown) + 1
        if room < 0:
            break
        kept.append(shown)
    return kept


def _separator(lines: int, characters: int, output_file: Path | str | None) -> str:
    what = f"{left_out(lines, characters)} here." if characters else "Long lines are cut."
    where = f" The output is in {output_file}, up to 50 MB of it: read more with read_file." if output_file else ""
    return f"... [{what}{where}] ..."


def shorten(
    tool_name: str, text: str, limits: TextLimits, directory: Path | None = None, output_file: str | None = None
) -> Shortened:
    """The text of an output for the model: all of it, or its start and end with the name of a file that has the rest.

    `output_file` names a file that has the whole output already. Otherwise one is written to `directory`, by default
    the user's cache folder. If that fails, the text is shortened without a file. It blocks: call it in a thread.
    """
    if not text.strip():
        return Shortened(f"({tool_name} completed with no output)", False)
    short = truncate(text, limits, output_file)
    if output_file is not None:
        return Shortened(short.text, True, output_file)
    if not short.truncated:
        return short
    try:
        path = spill(tool_name, text, directory)
    except OSError:
        return short
    return Shortened(truncate(text, limits, path).text, True, path)


def spill(tool_name: str, text: str, directory: Path | None = None) -> Path:
    """Write at most 50 MB of the text to a new file with mode 0600. Raises `OSError`."""
    path, file = new_file(tool_name, directory)
    with file:
        room = SPILL_BYTES
        for start in range(0, len(text), _PIECE):
            piece = text[start : start + _PIECE].encode("utf-8", "replace")
            file.write(piece[:room].decode("utf-8", "ignore").encode() if len(piece) > room else piece)
            room -= len(piece)
            if room <= 0:
                break
    return path


def new_file(name: str, directory: Path | None = None) -> tuple[Path, BinaryIO]:
    """Create a new file with mode 0600 for one output. Raises `OSError`.

    Without a directory it is in the user's cache folder, which keeps at most a week's files and 500 MB.
    """
    if directory is None:
        directory = outputs_directory()
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        _prune(directory)
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    stem = re.sub(r"[^A-Za-z0-9_-]", "_", name)[:64] or "output"
    path = directory / f"{stem}-{secrets.token_hex(8)}.txt"
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    return path, os.fdopen(descriptor, "wb", buffering=262_144)


def outputs_directory() -> Path:
    """The folder for long outputs, the same for servers and kernels."""
    return user_cache_path("agent-kernel", appauthor=False) / "outputs"


def _prune(directory: Path) -> None:
    """Remove the oldest outputs beyond the limits."""
    found: list[tuple[float, int, str]] = []
    with os.scandir(directory) as entries:
        for _, entry in zip(range(_MOST_FILES), entries, strict=False):
            if _NAME.fullmatch(entry.name):
                with contextlib.suppress(OSError):
                    about = entry.stat(follow_symlinks=False)
                    found.append((about.st_mtime, about.st_size, entry.path))
    oldest = (datetime.now(UTC) - KEPT_AGE).timestamp()
    room = KEPT_BYTES - SPILL_BYTES
    for changed, size, path in sorted(found, reverse=True):
        room -= size
        if changed < oldest or room < 0:
            with contextlib.suppress(OSError):
                os.unlink(path)  # noqa: PTH108 -- as `scandir` names it
