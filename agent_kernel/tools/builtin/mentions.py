"""Reads the files and the saved cells that a prompt mentions, for the model: bounded, and nothing outside of `root`."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agent_kernel.errors import ToolFailed
from agent_kernel.protocol.kernel import MENTION_CHARACTERS
from agent_kernel.protocol.notebook_cells import SeenCell, source_digest
from agent_kernel.tools.builtin.cells import output_text, text_of
from agent_kernel.tools.builtin.paths import decode
from agent_kernel.tools.builtin.prompt_pictures import place_below, reason_for, saved_cells
from agent_kernel.tools.builtin.safe_open import read_start
from agent_kernel.tools.truncation import TextLimits, truncate

_START = 4 * MENTION_CHARACTERS
"""Bytes: a character of UTF-8 has four at most."""
_HEADING = 300
_LINE = 2_000
_SOURCE = TextLimits(characters=MENTION_CHARACTERS // 2, lines=200)
_OUTPUTS = TextLimits(characters=MENTION_CHARACTERS // 2 - _HEADING, lines=200)
"""Of all outputs of a cell: mostly their end, where the error is."""
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


@dataclass(frozen=True, slots=True)
class MentionedCell:
    text: str
    seen: SeenCell | None
    """Set if the text has the cell's whole source."""


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
    lines = [line if len(line) <= _LINE else f"{line[:_LINE]}..." for line in text.removesuffix("\n").split("\n")]
    room, kept = MENTION_CHARACTERS - _HEADING, 0
    for line in lines:
        room -= len(line) + 1
        if room < 0:
            break
        kept += 1
    whole = kept == len(lines) and size == len(text.encode("utf-8", "surrogatepass"))
    what = "the whole file" if whole else f"its first {kept} lines"
    return "\n".join([f"the file {name} ({size:,} bytes), {what}:", *lines[:kept]])


def saved_cell(root: Path, notebook: str | None, is_it: Callable[[dict[str, Any]], bool]) -> MentionedCell | None:
    """The first such cell of the saved notebook, with its outputs. Slow: call it in a thread."""
    try:
        cells = saved_cells(root, notebook)
    except ToolFailed:
        return None
    found = next((cell for cell in cells if is_it(cell)), None)
    return None if found is None else mentioned_cell(found)


def mentioned_cell(cell: dict[str, Any]) -> MentionedCell:
    """A cell of a notebook of format 4, with its source, outputs and error, in at most 6,000 characters."""
    cell_id, count = str(cell.get("id", ""))[:64], cell.get("execution_count")
    source = text_of(cell.get("source"))
    shown = truncate(source, _SOURCE)
    kind = cell.get("cell_type")
    names = [f"[{count}]" if isinstance(count, int) else "", f"cell:{cell_id}" if cell_id else ""]
    heading = " ".join(filter(None, names)) + (f" ({kind})" if kind in ("markdown", "raw") else "")
    outputs = cell.get("outputs")
    blocks = [_output(one) for one in outputs if isinstance(one, dict)] if isinstance(outputs, list) else []
    parts = [f"{heading}:", shown.text]
    if any(blocks):
        parts += ["Its outputs:", truncate("\n".join(filter(None, blocks)), _OUTPUTS).text]
    seen = SeenCell(cell_id=cell_id, digest=source_digest(source)) if cell_id and not shown.truncated else None
    return MentionedCell("\n".join(parts), seen)


def _output(output: dict[str, Any]) -> str:
    text = output_text(output)
    if output.get("output_type") == "error":
        trace = output.get("traceback")
        lines = [line for line in trace if isinstance(line, str)] if isinstance(trace, list) else []
        text = "\n".join(lines) or text
    return _COLOURS.sub("", text)
