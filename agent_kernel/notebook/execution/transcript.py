"""`Transcript`: the text of a call's streams, kept for the model in bounded memory.

A short output is kept in memory. A long one is written to a private file, and memory keeps its beginning and its end.
"""

import contextlib
import re
from collections import deque
from typing import BinaryIO

from agent_kernel.tools.truncation import SPILL_BYTES, new_file

MEMORY_CHARACTERS = 1_048_576
"""Most characters in memory: one fifth from the beginning, the rest from the end."""

_HEAD_CHARACTERS = MEMORY_CHARACTERS // 5
_ANSI = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[@-_]")


def plain(text: str) -> str:
    """Text without terminal escapes, and with each line as it looks after its carriage returns."""
    text = _ANSI.sub("", text)
    if "\r" not in text:
        return text
    return "\n".join(_overwrite(line) for line in text.replace("\r\n", "\n").split("\n"))


def _overwrite(line: str) -> str:
    shown = ""
    for part in line.split("\r"):
        shown = part + shown[len(part) :]
    return shown


class Transcript:
    """Not thread-safe: its owner holds a lock."""

    def __init__(self) -> None:
        self._head: list[str] = []
        self._head_length = 0
        self._tail: deque[str] = deque()
        self._tail_length = 0
        self._left_out = 0
        self._file: BinaryIO | None = None
        self._file_length = 0
        self._is_full = False
        self._path: str | None = None

    @property
    def path(self) -> str | None:
        """The file that has the text that is left out here; `None` if none is."""
        return self._path if self._left_out else None

    def append(self, text: str) -> None:
        room = _HEAD_CHARACTERS - self._head_length
        if room > 0:
            self._head.append(text[:room])
            self._head_length += min(room, len(text))
        rest = text[room:] if room > 0 else text
        if self._file is not None:
            self._spool(text)
        if not rest:
            return
        self._tail.append(rest)
        self._tail_length += len(rest)
        if self._head_length + self._tail_length > MEMORY_CHARACTERS:
            if self._file is None and self._path is None and not self._is_full:
                self._open_file()
            self._drop()

    def clear(self) -> None:
        """Drop the text, for `clear_output`. A file that was begun keeps it."""
        self._head.clear()
        self._tail.clear()
        self._head_length = self._tail_length = self._left_out = 0

    def close(self) -> None:
        if self._file is not None:
            with contextlib.suppress(OSError):
                self._file.close()
            self._file = None

    def text(self) -> str:
        head, tail = "".join(self._head), "".join(self._tail)
        if not self._left_out:
            return plain(head + tail)
        kept = "all of it" if self._file_length < SPILL_BYTES else f"the first {SPILL_BYTES // 1_048_576} MiB"
        where = f"; {kept} is in the file {self._path}" if self._path is not None else ""
        return f"{plain(head)}\n[... {self._left_out:,} characters left out here{where} ...]\n{plain(tail)}"

    def _open_file(self) -> None:
        try:
            path, self._file = new_file("output")
        except OSError:
            # The call may go on printing.
            self._is_full = True
            return
        self._path = str(path)
        for part in (*self._head, *self._tail):
            self._spool(part)

    def _spool(self, text: str) -> None:
        if self._file is None or self._is_full or self._file_length >= SPILL_BYTES:
            return
        data = text.encode("utf-8", "replace")[: SPILL_BYTES - self._file_length]
        try:
            self._file.write(data)
        except OSError:
            self._path, self._is_full = None, True
            return
        self._file_length += len(data)

    def _drop(self) -> None:
        excess = self._head_length + self._tail_length - MEMORY_CHARACTERS
        while excess > 0:
            first = self._tail.popleft()
            if len(first) > excess:
                self._tail.appendleft(first[excess:])
            cut = min(excess, len(first))
            excess -= cut
            self._tail_length -= cut
            self._left_out += cut
