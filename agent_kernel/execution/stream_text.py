"""`StreamText`: the text of a call's streams, kept for the model in bounded memory."""

import re
from collections import deque
from itertools import chain

from agent_kernel.protocol.figures import left_out
from agent_kernel.tools.truncation import SPILL_BYTES, new_file

SHOWN_CHARACTERS = 1_048_576
"""Most characters of the text itself: one fifth from the beginning, the rest from the end. A file has more."""

_HEAD_CHARACTERS = SHOWN_CHARACTERS // 5
_TAIL_CHARACTERS = SHOWN_CHARACTERS - _HEAD_CHARACTERS
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


class StreamText:
    """Keeps the first 50 MB and the last megabyte."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        self._first: list[str] = []
        self._last: deque[str] = deque()
        self._room = SPILL_BYTES
        self.length = 0
        self._last_length = 0

    def append(self, text: str) -> None:
        self.length += len(text)
        if self._room > 0:
            self._first.append(text[: self._room])
            text, self._room = text[self._room :], max(0, self._room - len(text))
        if text:
            self._last.append(text)
            self._last_length += len(text)
            while self._last_length - len(self._last[0]) >= _TAIL_CHARACTERS:
                self._last_length -= len(self._last.popleft())

    def end(self, characters: int) -> str:
        """The last characters as they came, at most as many as are kept of the end."""
        if characters <= 0:
            return ""
        kept: list[str] = []
        for piece in chain(reversed(self._last), reversed(self._first)):
            kept.append(piece[-characters:])
            characters -= len(kept[-1])
            if not characters:
                break
        return "".join(reversed(kept))

    def text(self) -> tuple[str, str | None]:
        """The text, and the file that has what it leaves out. Writes that file: call it in a thread."""
        first, last = "".join(self._first), "".join(self._last)
        if self.length <= SHOWN_CHARACTERS:
            return plain(first), None
        try:
            path, file = new_file("output")
            with file:
                file.write(first.encode("utf-8", "replace")[:SPILL_BYTES])
        except OSError:
            where, name = "", None
        else:
            name = str(path)
            kept = "all of it" if not last else f"the first {SPILL_BYTES // 1_048_576} MiB"
            where = f"; {kept} is in the file {name}"
        end = (first[-_TAIL_CHARACTERS:] + last)[-_TAIL_CHARACTERS:]
        note = f"[... {left_out(0, self.length - SHOWN_CHARACTERS)} here{where} ...]"
        return f"{plain(first[:_HEAD_CHARACTERS])}\n{note}\n{plain(end)}", name
