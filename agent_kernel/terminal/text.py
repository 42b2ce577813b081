"""Writes texts to a terminal so that nothing in them can act on it or pass for one of our own lines.

Control, invisible and bidirectional characters are written out, as on cards. Whatever a model, a tool or a file says
has a margin on every line, also where a long line is wrapped: only this program writes into the first column.
"""

import unicodedata
from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from operator import itemgetter
from typing import TextIO

from prompt_toolkit.utils import get_cwidth

from agent_kernel.record.outputs import on_screen
from agent_kernel.tools.review.hidden import reveal, reveal_in_prose

MARGIN = "  "
TAB = "    "
NARROWEST = 12
"""The fewest columns that are reckoned with."""

BOLD, DIM, RED, GREEN, YELLOW, CYAN = "1", "2", "31", "32", "33", "36"
"""Styles are SGR parameters; an empty text is none."""

Segment = tuple[str, str]
"""A style, and text that is safe to write."""


def safe_prose(text: str) -> str:
    """Text of a model or a person."""
    return _encodable(reveal_in_prose(text.replace("\r\n", "\n")))


def safe_code(text: str) -> str:
    """Code and arguments, in which joiners are written out as well."""
    return _encodable(reveal(text.replace("\r\n", "\n")))


def safe_output(text: str) -> str:
    """A tool's output, as a terminal would leave it: without colours, and with the last state of redrawn lines."""
    return safe_prose(on_screen(text))


def one_line(text: str, most: int = 200) -> str:
    """A text of any length as a bounded line."""
    line = " ".join(safe_prose(text[: 4 * most]).split())
    return line if len(line) <= most and len(text) <= 4 * most else f"{line[: most - 1]}…"


def _encodable(text: str) -> str:
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def cells(character: str) -> int:
    """The most columns that a character takes in any terminal: some are wide in a part of them."""
    if character.isascii():
        return 1
    if character == "\ufe0f":  # makes the character before it wide
        return 1
    return 2 if unicodedata.east_asian_width(character) in "AFW" else max(0, get_cwidth(character))


class Flow:
    """Text that comes piece by piece, wrapped at the terminal's width, with a margin on every line. A word that may go
    on is held back until the next piece, or `end`."""

    def __init__(self, terminal: "Terminal", margin: str = MARGIN, hang: str | None = None, style: str = "") -> None:
        """`margin` is that of the first line, `hang` that of each later one."""
        self._terminal = terminal
        self._margin = margin
        self._hang = margin if hang is None else hang
        self._style = style
        self._column = 0
        """0 before the margin of a line is written."""
        self._word: list[Segment] = []
        self._word_cells = 0
        self._out: list[Segment] = []
        self._return = False

    def feed(self, text: str, style: str | None = None) -> None:
        style = self._style if style is None else style
        for character in text.replace("\t", TAB):
            if character == "\n":
                self._put_word()
                self._break()
            elif character == " ":
                self._put_word()
                self._put([(style, " ")], 1)
            else:
                self._hold(style, character)
        self._terminal.write(self._take())

    def end(self) -> None:
        """Write what is held back, and end the line."""
        self._put_word()
        if self._column:
            self._break()
        self._terminal.write(self._take())

    def _hold(self, style: str, character: str) -> None:
        width = cells(character)
        if self._word_cells + width > self._room:
            self._put_word()
        self._word.append((style, character))
        self._word_cells += width

    @property
    def _room(self) -> int:
        return max(2, self._terminal.columns - max(map(_width, (self._margin, self._hang))))

    def _put_word(self) -> None:
        if self._word:
            self._put(self._word, self._word_cells)
            self._word = []
            self._word_cells = 0

    def _put(self, segments: list[Segment], width: int) -> None:
        if self._column and self._column + width > self._terminal.columns:
            self._out.append(("", "\n"))
            self._margin = self._hang
            self._column = 0
            if segments[0][1] == " ":
                return
        if not self._column:
            self._out.append((DIM, self._margin))
            self._column = _width(self._margin)
        self._out += segments
        self._column += width

    def _break(self) -> None:
        if not self._column and self._margin.strip():
            self._out.append((DIM, self._margin.rstrip()))
        self._out.append(("", "\n"))
        self._margin = self._hang
        self._column = 0

    def _take(self) -> list[Segment]:
        out, self._out = self._out, []
        return out


def _width(text: str) -> int:
    return sum(map(cells, text))


class Terminal:
    """Where text is written: a terminal, or a file or pipe, which has no colours and lines of any length."""

    def __init__(self, out: TextIO, *, columns: Callable[[], int], colour: bool) -> None:
        """`columns` gives the width of the terminal as it is now."""
        self._out = out
        self._columns = columns
        self._colour = colour
        self._end = "\n\n"
        """The last two characters that were written."""

    @property
    def columns(self) -> int:
        """The columns to write into. The last one is left free: some terminals begin a new line when it is filled."""
        return max(NARROWEST, self._columns()) - 1

    def write(self, segments: Iterable[Segment]) -> None:
        for style, group in groupby(segments, key=itemgetter(0)):
            text = "".join(map(itemgetter(1), group))
            self._end = (self._end + text)[-2:]
            # A style begins and ends within a line, so that nothing that comes between leaks it.
            self._out.write(f"\x1b[{style}m{text}\x1b[0m" if style and self._colour and text.strip() else text)
        self._out.flush()

    def gap(self) -> None:
        """An empty line, unless there is one."""
        if self._end != "\n\n":
            self.write([("", "\n")])

    def line(self, text: str = "", style: str = "", margin: str = "") -> None:
        """A line of our own: `text` is one that a caller made safe."""
        self.lines([(style, text)], margin)

    def lines(self, segments: Iterable[Segment], margin: str = "", hang: str = MARGIN) -> None:
        flow = Flow(self, margin, max(margin, hang, key=len))
        wrote = False
        for style, text in segments:
            wrote = wrote or bool(text)
            flow.feed(text, style)
        flow.end()
        if not wrote:
            self.write([("", "\n")])

    def code(self, text: str, language: str = "", *, most: int | None = None) -> None:
        """Numbered lines of code, each wrapped with a hanging margin; at most so many."""
        rows = list(_code_lines(safe_code(text.removesuffix("\n")), language))
        shown = rows if most is None or len(rows) <= most + 1 else rows[:most]
        digits = len(str(len(rows)))
        for number, row in enumerate(shown, 1):
            flow = Flow(self, f"{MARGIN}{number:>{digits}} │ ", f"{MARGIN}{'':>{digits}} │ ")
            for style, piece in row or [("", "")]:
                flow.feed(piece, style)
            flow.end() if row else self.write([(DIM, f"{MARGIN}{number:>{digits}} │"), ("", "\n")])
        if len(shown) < len(rows):
            self.line(f"… {len(rows) - len(shown):,} more lines", DIM, MARGIN)


def _code_lines(text: str, language: str) -> Iterator[list[Segment]]:
    """The lines of a text, highlighted if its language is known."""
    row: list[Segment] = []
    for style, piece in _highlighted(text, language):
        first, *others = piece.split("\n")
        if first:
            row.append((style, first))
        for other in others:
            yield row
            row = [(style, other)] if other else []
    yield row


_LONGEST_HIGHLIGHTED = 50_000


def _highlighted(text: str, language: str) -> Iterable[Segment]:
    if not language or len(text) > _LONGEST_HIGHLIGHTED:
        return [("", text)]
    from pygments.lexers import get_lexer_by_name
    from pygments.util import ClassNotFound

    name = {"shell": "bash", "piece": "diff"}.get(language, language)
    try:
        lexer = get_lexer_by_name(name, stripnl=False, ensurenl=False)
    except ClassNotFound:
        return [("", text)]
    return [(_style_of(str(kind)), piece) for kind, piece in lexer.get_tokens(text)]


_STYLES = {
    "Token.Comment": DIM,
    "Token.Literal.String": GREEN,
    "Token.Literal.Number": CYAN,
    "Token.Keyword": BOLD,
    "Token.Generic.Inserted": GREEN,
    "Token.Generic.Deleted": RED,
    "Token.Generic.Subheading": CYAN,
}


def _style_of(kind: str) -> str:
    return next((style for name, style in _STYLES.items() if kind.startswith(name)), "")
