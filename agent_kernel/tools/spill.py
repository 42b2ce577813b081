"""Where a long output is kept in full, and the short text for the model that says so."""

import os
import re
import secrets
from dataclasses import dataclass
from pathlib import Path

from agent_kernel.tools.truncation import TextLimits, truncate

SPILL_BYTES = 50 * 1024 * 1024
_PIECE = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Shortened:
    text: str
    truncated: bool
    output_file: Path | None = None
    """Set where the whole output was written to a file."""


def shorten(tool_name: str, text: str, limits: TextLimits, directory: Path | None = None) -> Shortened:
    """What the model is told of an output: the text, or its start and end with the whole in a file.

    Without a directory, or where the file can't be written, the text is shortened all the same. This blocks while it
    writes: call it in a thread.
    """
    if not text.strip():
        return Shortened(f"({tool_name} completed with no output)", False)
    short = truncate(text, limits)
    if not short.truncated or directory is None:
        return Shortened(short.text, short.truncated)
    try:
        path = spill(tool_name, text, directory)
    except OSError:
        return Shortened(short.text, True)
    return Shortened(truncate(text, limits, path).text, True, path)


def spill(tool_name: str, text: str, directory: Path) -> Path:
    """Write the text to a new file that only its owner can read, at most 50 MB of it. Raises `OSError`."""
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    stem = re.sub(r"[^A-Za-z0-9_-]", "_", tool_name)[:64]
    path = directory / f"{stem}-{secrets.token_hex(8)}.txt"
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        room = SPILL_BYTES
        for start in range(0, len(text), _PIECE):
            piece = text[start : start + _PIECE].encode("utf-8", "replace")
            file.write(piece[:room].decode("utf-8", "ignore").encode() if len(piece) > room else piece)
            room -= len(piece)
            if room <= 0:
                break
    return path
