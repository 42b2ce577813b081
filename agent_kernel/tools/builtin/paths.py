"""Resolves the paths of file tools, and reads and writes text files without losing encoding or line ends."""

import codecs
import errno
import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from agent_kernel.errors import ToolFailed
from agent_kernel.tools.builtin.safe_open import FileTooLarge, is_link_on_the_way, read_bytes, replace_file

MAX_BYTES = 20 * 1024 * 1024
PROBED = 8192
"""How many bytes are examined to recognise a binary file."""
_SHOWN = 300
_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


@dataclass(frozen=True, slots=True)
class TextFile:
    text: str
    """The text with `\\n` line ends."""
    encoding: str
    newline: str


def resolve(path: str, root: Path) -> Path:
    """The resolved path, links followed. Raises `ToolFailed` for a path that can't exist."""
    try:
        found = Path(os.path.realpath(root / path))
        with suppress(FileNotFoundError, NotADirectoryError):
            os.lstat(found)  # raises for a name that is too long
    except (ValueError, OSError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise ToolFailed(f"{path[:_SHOWN]!r} is not a usable path: {reason}.") from None
    return found


def place_of(path: str, root: Path, approved: Path | None) -> Path:
    """The resolved path that is opened. Raises `ToolFailed` if the call was approved for another one."""
    found = resolve(path, root)
    if approved is not None and found != approved:
        raise ToolFailed(
            f"{path[:_SHOWN]!r} leads to {str(found)[:_SHOWN]} now; this call was approved for "
            f"{str(approved)[:_SHOWN]}. Nothing was read or written. Send a new call for the path that you want."
        )
    return found


def existing(path: str, root: Path, approved: Path | None) -> Path:
    """As `place_of`, for an existing path."""
    found = place_of(path, root, approved)
    if not os.path.lexists(found):
        raise ToolFailed(f"There is no file {path!r} (the notebook's folder is {root}).")
    return found


def read_text(place: Path, shown: str, most: int = MAX_BYTES) -> TextFile:
    """Read a text file. Raises `ToolFailed` for folders, binary or unreadable files, and above `most` bytes."""
    try:
        return decode(read_bytes(place, most), shown)
    except FileTooLarge as large:
        raise ToolFailed(
            f"{shown!r} has {large.size:,} bytes, more than the {most:,} that are read. Use run_python."
        ) from None
    except OSError as error:
        raise failed(error, shown, "read") from None


def failed(error: OSError, shown: str, done: Literal["read", "listed", "written"]) -> ToolFailed:
    """The `ToolFailed` for an error of `safe_open`."""
    if isinstance(error, IsADirectoryError):
        return ToolFailed(
            f"{shown!r} is not a regular file." if done == "written" else f"{shown!r} is a folder. Use list_files."
        )
    if is_link_on_the_way(error):
        return ToolFailed(f"{shown!r} can't be {done}: a part of it is no folder, or was replaced by a link meanwhile.")
    if error.errno == errno.EINVAL:
        return ToolFailed(f"{shown!r} is not a regular file.")
    return ToolFailed(f"{shown!r} can't be {done}: {error.strerror}.")


def is_binary(start: bytes) -> bool:
    """Whether a file is binary, by its first bytes."""
    return b"\0" in start[:PROBED] and not any(start.startswith(mark) for mark, _ in _MARKS)


def decode(raw: bytes, shown: str) -> TextFile:
    encoding = next((name for mark, name in _MARKS if raw.startswith(mark)), "utf-8")
    if encoding == "utf-8" and b"\0" in raw[:PROBED]:
        raise ToolFailed(f"{shown!r} is a binary file ({len(raw):,} bytes). Load it with run_python.")
    try:
        text = raw.decode(encoding)
    except UnicodeDecodeError:
        # Latin-1 decodes every byte and encodes it back unchanged.
        encoding, text = "latin-1", raw.decode("latin-1")
    newline = "\r\n" if "\r\n" in text and text.count("\r\n") == text.count("\n") else "\n"
    return TextFile(text.replace("\r\n", "\n") if newline == "\r\n" else text, encoding, newline)


def write_text(place: Path, shown: str, content: TextFile) -> None:
    """Replace the file atomically and keep its permissions. Raises `ToolFailed`."""
    text = content.text.replace("\n", content.newline) if content.newline != "\n" else content.text
    try:
        raw = text.encode(content.encoding)
    except UnicodeEncodeError as error:
        wrong = f"U+{ord(text[error.start]):04X}"
        raise ToolFailed(f"{shown!r} is in {content.encoding}, which has no character {wrong}.") from None
    try:
        replace_file(place, raw)
    except OSError as error:
        raise failed(error, shown, "written") from None
