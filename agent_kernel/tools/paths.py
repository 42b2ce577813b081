"""Paths and text files as the file tools see them: found from the notebook's folder, read without losing anything."""

import codecs
import os
import secrets
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from agent_kernel.errors import ToolFailed

MAX_BYTES = 20 * 1024 * 1024
_PROBE = 8192
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
    """With `\\n` line ends."""
    encoding: str
    newline: str


def resolve(path: str, root: Path) -> Path:
    """The real path, links followed. Raises `ToolFailed` for one that can't exist."""
    try:
        found = Path(os.path.realpath(root / path))
        found.exists()  # raises for a name that is too long
    except (ValueError, OSError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise ToolFailed(f"{path[:_SHOWN]!r} is not a usable path: {reason}.") from None
    return found


def existing(path: str, root: Path) -> Path:
    found = resolve(path, root)
    if not found.exists():
        raise ToolFailed(f"There is no file {path!r} (the notebook's folder is {root}).")
    return found


def is_binary(path: Path) -> bool:
    with path.open("rb") as file:
        start = file.read(_PROBE)
    return b"\0" in start and not any(start.startswith(mark) for mark, _ in _MARKS)


def read_text(path: Path, shown: str, most: int = MAX_BYTES) -> TextFile:
    """Raises `ToolFailed` for a folder, a binary file, one above `most` bytes or one that can't be read."""
    if path.is_dir():
        raise ToolFailed(f"{shown!r} is a folder. Use list_files.")
    if not path.is_file():
        raise ToolFailed(f"{shown!r} is not a regular file.")
    try:
        size = path.stat().st_size
        if size > most:
            raise ToolFailed(f"{shown!r} has {size:,} bytes, more than the {most:,} that are read. Use run_python.")
        raw = path.read_bytes()
    except OSError as error:
        raise ToolFailed(f"{shown!r} can't be read: {error.strerror}.") from None
    return decode(raw, shown)


def decode(raw: bytes, shown: str) -> TextFile:
    encoding = next((name for mark, name in _MARKS if raw.startswith(mark)), "utf-8")
    if encoding == "utf-8" and b"\0" in raw[:_PROBE]:
        raise ToolFailed(f"{shown!r} is a binary file ({len(raw):,} bytes). Load it with run_python.")
    try:
        text = raw.decode(encoding)
    except UnicodeDecodeError:
        # Latin-1 reads every byte and writes it back as it was.
        encoding, text = "latin-1", raw.decode("latin-1")
    newline = "\r\n" if "\r\n" in text and text.count("\r\n") == text.count("\n") else "\n"
    return TextFile(text.replace("\r\n", "\n") if newline == "\r\n" else text, encoding, newline)


def write_text(path: Path, shown: str, content: TextFile) -> None:
    """Replace the file at once or not at all, and keep its permissions. Raises `ToolFailed`."""
    text = content.text.replace("\n", content.newline) if content.newline != "\n" else content.text
    try:
        raw = text.encode(content.encoding)
    except UnicodeEncodeError as error:
        wrong = f"U+{ord(text[error.start]):04X}"
        raise ToolFailed(f"{shown!r} is in {content.encoding}, which has no character {wrong}.") from None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, raw)
    except OSError as error:
        raise ToolFailed(f"{shown!r} can't be written: {error.strerror}.") from None


def replace_file(path: Path, raw: bytes) -> None:
    """Replace a file at once or not at all, and keep its permissions. Raises `OSError`."""
    temporary = path.with_name(f".{path.name[:100]}.{secrets.token_hex(6)}.tmp")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(raw)
            file.flush()
            os.fsync(file.fileno())
        if path.exists():
            temporary.chmod(path.stat().st_mode & 0o7777)
        temporary.replace(path)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise
