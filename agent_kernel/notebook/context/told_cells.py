"""Describes the model's environment to it: the notebook, the user's variables, and the cells that ran last, with what
they printed and showed, and how they failed."""

import os
import platform
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from IPython.core.interactiveshell import InteractiveShell

from agent_kernel.execution.stream_text import plain
from agent_kernel.models.redaction import Secrets, hide_keys
from agent_kernel.notebook.inspect import Describer, user_variables
from agent_kernel.protocol.calls import SeenCell, source_digest
from agent_kernel.protocol.kernel import CELLS_OPEN, FOLDER_OPEN, VARIABLES_OPEN, EnvironmentDescribed

MAX_CHARACTERS = 12_000
"""Of all cells."""
FAILED_CHARACTERS = 6_000
"""Of a cell that failed."""
RAN_CHARACTERS = 2_000
"""Of another one."""
CELLS = 6
STREAM_CHARACTERS = 600
SHOWN_CHARACTERS = 300
_PLACE_CHARACTERS = 1_500
_VARIABLES = 40
_VARIABLE_CHARACTERS = 1_800
_SECRET_NAME = re.compile(r"(?i)(?:^|_)(?:key|token|secret|password|passwd|credentials?)(?:$|_)")
_LEAST = 200
"""Of an earlier cell no fewer characters are told."""


@dataclass(frozen=True, slots=True)
class RanCell:
    """A cell that ran, as far as that is known."""

    number: int
    source: str
    cell_id: str | None = None
    printed: tuple[tuple[str, str], ...] = ()
    """The streams' names, and the ends of what was printed."""
    shown: tuple[str, ...] = ()
    error: str | None = None


Told = tuple[str, tuple[SeenCell, ...]]
"""The text, and the cells whose source is in it as it is, all of it."""


def describe_environment(shell: InteractiveShell, path: str | None, cells: Sequence[RanCell]) -> EnvironmentDescribed:
    """A text of at most 16,000 characters. `path` is the notebook's, where it is known; `cells` are what ran last.

    Safe in any thread and while the main thread is busy: it runs none of the user's code.
    """
    place = f"the notebook {path}" if path else "a notebook or script with no known path"
    where = f"You work in {place}, with Python {platform.python_version()}{FOLDER_OPEN}{Path.cwd()}."
    parts = [where[:_PLACE_CHARACTERS], _variables(shell)]
    told, seen = describe_cells(cells)
    if told:
        parts.append(CELLS_OPEN + told)
    return EnvironmentDescribed(text="\n\n".join(parts), cells=seen)


def _variables(shell: InteractiveShell) -> str:
    mine = user_variables(shell.user_ns, shell.user_ns_hidden)
    if not mine:
        return "No variables are defined yet."
    lines: list[str] = []
    length, describer = 0, Describer()
    for name, value in islice(mine.items(), _VARIABLES):
        line = f"- {name}: {describer.short(value)}"[:300]
        length += len(line)
        if length > _VARIABLE_CHARACTERS:
            break
        lines.append(line)
    more = len(mine) - len(lines)
    return VARIABLES_OPEN + "\n".join([*lines, *([f"- and {more} more"] if more else [])])


def describe_cells(cells: Sequence[RanCell]) -> Told:
    """The last of the cells, in the order in which they ran. Of a cell that ran twice the last time counts: one
    whose id is not known is told by its source."""
    blocks: list[str] = []
    seen: list[SeenCell] = []
    room, told, hide = MAX_CHARACTERS, set[str](), _hider()
    for cell in reversed(cells):
        if (cell.cell_id or cell.source) in told:
            continue
        most = min(room, FAILED_CHARACTERS if cell.error is not None else RAN_CHARACTERS)
        if len(blocks) == CELLS or most < _LEAST:
            break
        block, whole = _block(cell, most, hide)
        blocks.append(block)
        room -= len(block) + 1
        told |= {cell.cell_id or "", cell.source}
        if whole and cell.cell_id is not None:
            seen.append(_seen(cell.cell_id, cell.source))
    return "\n".join(reversed(blocks)), tuple(seen)


def describe_cell(cell: RanCell, most: int = FAILED_CHARACTERS) -> Told:
    """One cell that is asked for."""
    block, whole = _block(cell, most, _hider())
    return block, (_seen(cell.cell_id, cell.source),) if whole and cell.cell_id is not None else ()


def _seen(cell_id: str, source: str) -> SeenCell:
    return SeenCell(cell_id=cell_id, digest=source_digest(source))


def _block(cell: RanCell, most: int, hide: Callable[[str], str]) -> tuple[str, bool]:
    """A cell in at most so many characters, and whether they have its whole source."""
    head = f"[{cell.number}] cell:{cell.cell_id}" if cell.cell_id is not None else f"[{cell.number}]"
    parts = [f"  {name}: {_end(hide(plain(text)))}" for name, text in cell.printed if text.strip()]
    parts += [f"  -> {_cut(hide(plain(text)).strip(), SHOWN_CHARACTERS)}" for text in cell.shown[:3]]
    if cell.error is not None:
        parts.append(f"  failed: {hide(cell.error)}")
    after = "\n".join(part.replace("\n", "\n  ") for part in parts)
    source = hide(cell.source)
    told = _cut(source.strip("\n"), max(_LEAST // 2, most - len(head) - len(after) - 2))
    block = "\n".join(part for part in (head, told, after) if part)
    return _cut(block, most), source == cell.source and told == source.strip("\n") and len(block) <= most


def _hider() -> Callable[[str], str]:
    """Takes out keys: those in the environment of this process, and what certainly is one."""
    known = Secrets(value for name, value in os.environ.items() if _SECRET_NAME.search(name))
    return lambda text: hide_keys(known.clean(text))


def _end(text: str) -> str:
    """The end of a text. It does not begin within a word, which may be a key."""
    text = text.rstrip()
    if len(text) <= STREAM_CHARACTERS:
        return text
    last = text[-STREAM_CHARACTERS:]
    return "[...] " + last[max(last.find("\n"), last.find(" "), 0) :].lstrip()


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else text[: length - 3] + "..."
