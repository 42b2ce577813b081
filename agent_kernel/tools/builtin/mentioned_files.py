"""Reads the files and the saved cells that a prompt mentions, for the model: bounded, and nothing outside of `root`."""

import re
from collections.abc import Callable
from pathlib import Path

from agent_kernel.errors import ToolFailed
from agent_kernel.protocol.kernel import MENTION_CHARACTERS
from agent_kernel.protocol.pages import CellState
from agent_kernel.tools.builtin.cells import cell_states
from agent_kernel.tools.builtin.paths import decode
from agent_kernel.tools.builtin.prompt_pictures import place_below, reason_for, saved_cells
from agent_kernel.tools.builtin.safe_open import read_start
from agent_kernel.tools.truncation import cut_line

_START = 4 * MENTION_CHARACTERS
"""Bytes: a character of UTF-8 has four at most."""
_HEADING = 300
_LINE = 2_000
_NUMBER = re.compile(r"\[(\d{1,9})\]")
_CELL = "cell:"


def cell_named(name: str) -> int | str | None:
    """The execution count or the id of the cell that a mention names; `None` for one that names none."""
    if number := _NUMBER.fullmatch(name):
        return int(number[1])
    return name.removeprefix(_CELL) if name.startswith(_CELL) else None


def mentioned_file(root: Path, name: str) -> str | None:
    """The beginning of a text file, such as a table's head; `None` if there is no such file. Slow: call it in a thread.
    Raises `ToolFailed`, with a message that continues a sentence after a colon."""
    if name.startswith("~"):
        raise ToolFailed("only files in the notebook's folder are read")
    place = place_below(root, name)
    try:
        raw = read_start(place, _START)
        size = place.lstat().st_size
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        if name.isidentifier():  # a folder `data` is not what somebody of that name means
            return None
        raise ToolFailed(reason_for(error)) from None
    return _head(name, _text_of_start(raw, name, size), size)


def _text_of_start(raw: bytes, name: str, size: int) -> str:
    if size > len(raw):  # the last character, and the last line, may be cut
        raw = raw[: raw.rfind(b"\n") + 1] or raw
    try:
        return decode(raw, name).text
    except ToolFailed:
        raise ToolFailed(f"it is a binary file of {size:,} bytes") from None


def _head(name: str, text: str, size: int) -> str:
    whole_lines = text.removesuffix("\n").split("\n")
    lines = [cut_line(line, _LINE) for line in whole_lines]
    room, kept = MENTION_CHARACTERS - _HEADING, 0
    for line in lines:
        room -= len(line) + 1
        if room < 0:
            break
        kept += 1
    whole = lines[:kept] == whole_lines and size == len(text.encode("utf-8", "surrogatepass"))
    what = "the whole file" if whole else "its first line" if kept == 1 else f"its first {kept} lines"
    return "\n".join([f"the file {name} ({size:,} bytes), {what}:", *lines[:kept]])


def saved_cell(root: Path, notebook: str | None, is_it: Callable[[CellState], bool]) -> CellState | None:
    """The first such cell of the saved notebook, with its outputs. Slow: call it in a thread."""
    try:
        cells = cell_states(saved_cells(root, notebook))
    except ToolFailed:
        return None
    return next((cell for cell in cells if is_it(cell)), None)
