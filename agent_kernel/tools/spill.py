"""Where a long output is kept in full, and the short text for the model that says so."""

import contextlib
import os
import re
import secrets
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import BinaryIO

from agent_kernel.tools.truncation import TextLimits, truncate

SPILL_BYTES = 50 * 1024 * 1024
KEPT_AGE = timedelta(days=7)
KEPT_BYTES = 500 * 1024 * 1024
_MOST_FILES = 10_000
_PIECE = 1024 * 1024
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}-[0-9a-f]{16}\.txt")


@dataclass(frozen=True, slots=True)
class Shortened:
    text: str
    truncated: bool
    output_file: Path | str | None = None
    """Set where the whole output was written to a file."""


def shorten(
    tool_name: str, text: str, limits: TextLimits, directory: Path | None = None, output_file: str | None = None
) -> Shortened:
    """What the model is told of an output: the text, or its start and end with the whole in a file.

    `output_file` has the whole output already, and the text may be less. Otherwise the file goes into `directory`, or
    into the user's own. Where it can't be written, the text is shortened all the same. This blocks while it writes:
    call it in a thread.
    """
    if not text.strip():
        return Shortened(f"({tool_name} completed with no output)", False)
    short = truncate(text, limits, output_file)
    if output_file is not None:
        return Shortened(short.text, True, output_file)
    if not short.truncated:
        return Shortened(short.text, False)
    try:
        path = spill(tool_name, text, directory)
    except OSError:
        return Shortened(short.text, True)
    return Shortened(truncate(text, limits, path).text, True, path)


def spill(tool_name: str, text: str, directory: Path | None = None) -> Path:
    """Write the text to a new file that only its owner can read, at most 50 MB of it. Raises `OSError`."""
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
    """A file of its own for one output, which only its owner can read. Raises `OSError`.

    Without a directory it goes into the user's own, which keeps a week's files and 500 MB at most.
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
    """Where outputs go that are too long for the model, of a server and of a kernel alike."""
    from platformdirs import user_cache_path

    return user_cache_path("agent-kernel", appauthor=False) / "outputs"


def _prune(directory: Path) -> None:
    """Remove the oldest outputs, so that a new one has room."""
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
