"""A terminal as lines: what is written to it, and what a person types.

Whatever a model, a tool or a file says has a margin on every line, wrapped ones too, and no character that acts on the
terminal: only this program writes into the first column.
"""

import asyncio
import os
import re
import select
import sys
import threading
import unicodedata
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import TextIO

from agent_kernel.tools.review.hidden import reveal, reveal_in_prose

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


def cells(character: str) -> int:
    """The most columns that a character takes in any terminal: some are wide in a part of them."""
    return 2 if not character.isascii() and unicodedata.east_asian_width(character) in "AFW" else 1


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
            if self._column and self._column + sum(map(cells, piece)) > room:
                self._break()
                left = margin or MARGIN
                piece = piece.strip(" ")
            for character in piece:
                if self._column + cells(character) > room:
                    self._break()
                    left = margin or MARGIN
                if not self._column:
                    self._out.write(left)
                    self._column = sum(map(cells, left))
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


@dataclass(frozen=True, slots=True)
class Typed:
    """A line that a person typed."""

    text: str
    """Empty where there is no more to read."""
    question: int
    """Which question it was typed for."""


class Keyboard:
    """Reads lines in a thread of its own, each when it is asked for: between questions, an editor may have the keys."""

    def __init__(self, put: Callable[[Typed], None]) -> None:
        """`put` is called with each line in the running event loop."""
        self.question = 0
        """Counts the questions."""
        self._put = put
        self._loop = asyncio.get_running_loop()
        self._lock = threading.Lock()
        self._wanted = threading.Semaphore(0)
        self._is_reading = False
        threading.Thread(target=self._read, name="keyboard", daemon=True).start()

    def ask(self) -> None:
        """A question follows. What was typed before is forgotten, half a line too."""
        with self._lock:
            self.question += 1
            forget_typed()
        if not self._is_reading:
            self._is_reading = True
            self._wanted.release()

    def _read(self) -> None:
        while True:
            self._wanted.acquire()
            with suppress(RuntimeError):  # the loop is closed: the program ends
                self._loop.call_soon_threadsafe(self._came, self._next())

    def _came(self, typed: Typed) -> None:
        self._is_reading = False
        self._put(typed)

    if sys.platform == "win32":

        def _next(self) -> Typed:
            question = self.question  # half a line can't be dropped here: it is the earlier question's
            with open(sys.stdin.fileno(), encoding="utf-8", errors="replace", closefd=False) as stream:
                return Typed(stream.readline(), question)
    else:

        def _next(self) -> Typed:
            file = sys.stdin.fileno()
            while True:
                select.select([file], [], [])
                with self._lock:  # a line is read before the next question, or is forgotten
                    if select.select([file], [], [], 0)[0]:
                        try:
                            return Typed(os.read(file, 65_536).decode(errors="replace"), self.question)
                        except OSError:  # the terminal is gone
                            return Typed("", self.question)


if sys.platform == "win32":
    import msvcrt

    def forget_typed() -> None:
        while msvcrt.kbhit():
            msvcrt.getwch()
else:
    import termios

    def forget_typed() -> None:
        with suppress(OSError, termios.error):
            termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)
