"""A terminal as lines: what is written to it, and what a person types.

Whatever a model, a tool or a file says has a margin on every line, wrapped ones too, and no character that acts on the
terminal: only this program writes into the first column.
"""

import asyncio
import os
import re
import sys
import unicodedata
from collections.abc import Callable
from contextlib import suppress
from typing import TextIO

from agent_kernel.tools.review.hidden import reveal, reveal_in_prose

if sys.platform != "win32":
    import termios

MARGIN = "  "
NARROWEST = 12
"""The fewest columns that are reckoned with."""
_PIECES = re.compile(r"\n| +|[^ \n]+")


def prose(text: str) -> str:
    """Text of a model or a person, made safe."""
    return reveal_in_prose(text.replace("\r\n", "\n")).encode("utf-8", "replace").decode()


def code(text: str) -> str:
    """Code and arguments, made safe; joiners are written out as well."""
    return reveal(text.replace("\r\n", "\n")).encode("utf-8", "replace").decode()


def one_line(text: str, most: int = 400) -> str:
    """A text of any length as a bounded line, made safe."""
    line = " ".join(code(text[: 4 * most]).split())
    return line if len(line) <= most and len(text) <= 4 * most else f"{line[: most - 1]}…"


def cells(text: str) -> int:
    """The most columns that a text takes in any terminal: some characters are wide in a part of them."""
    return sum(2 if unicodedata.east_asian_width(character) in "AFW" else 1 for character in text)


class Terminal:
    """Where text is written that a caller made safe."""

    def __init__(self, out: TextIO, columns: Callable[[], int]) -> None:
        """`columns` gives the width as it is now."""
        self._out = out
        self._columns = columns
        self._column = 0
        """0 before the margin of a line is written."""
        self._blank = True
        self.lines = 0
        """How many were written."""

    def write(self, text: str, margin: str = MARGIN) -> None:
        """Write text that may go on."""
        room = max(NARROWEST, self._columns()) - 1  # some terminals begin a new line when the last column is filled
        left = margin
        for piece in _PIECES.findall(text.replace("\t", "    ")):
            if piece == "\n":
                self._break()
                left = margin
                continue
            if self._column and self._column + cells(piece) > room:
                self._break()
                piece = piece.strip(" ")
            for character in piece:
                if self._column + cells(character) > room:
                    self._break()
                if not self._column:
                    self._out.write(left)
                    self._column, left = cells(left), margin or MARGIN
                self._out.write(character)
                self._column += cells(character)
        self._out.flush()

    def line(self, text: str, margin: str = MARGIN) -> None:
        self.end_line()
        self.write(f"{text}\n", margin)

    def end_line(self) -> None:
        if self._column:
            self._break()
            self._out.flush()

    def gap(self) -> None:
        """An empty line, unless there is one."""
        self.end_line()
        if not self._blank:
            self._break()

    def ask(self, question: str) -> None:
        """A question, behind which the person types."""
        self.line(question, "")
        self._out.write("> ")
        self._out.flush()
        self._column = len("> ")

    def typed(self) -> None:
        """The person has ended the line of a question."""
        self._column, self._blank = 0, False

    def _break(self) -> None:
        self._out.write("\n")
        self._blank, self._column = not self._column, 0
        self.lines += 1


def forget_typed() -> None:
    """Forget what was typed before a question, half a line too."""
    if sys.platform != "win32":
        with suppress(OSError, termios.error):
            termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)


async def typed_line() -> str:
    """A line that the person types; empty at the end of the input."""
    if sys.platform == "win32":  # a thread can't be cancelled: the line that it waits for is lost with its question
        return await asyncio.to_thread(sys.stdin.readline)
    loop, file, typed = asyncio.get_running_loop(), sys.stdin.fileno(), asyncio.Event()
    loop.add_reader(file, typed.set)
    try:
        await typed.wait()
        return os.read(file, 65_536).decode(errors="replace")
    except OSError:  # the terminal is gone
        return ""
    finally:
        loop.remove_reader(file)
