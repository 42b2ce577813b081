"""Describes the cells that ran last: id, source, what they printed and showed, and how they failed."""

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from agent_kernel.execution.stream_text import plain
from agent_kernel.models.redaction import Secrets, hide_keys
from agent_kernel.protocol.calls import SeenCell, source_digest

MAX_CHARACTERS = 12_000
"""Of all cells."""
FAILED_CHARACTERS = 6_000
"""Of a cell that failed."""
RAN_CHARACTERS = 2_000
"""Of another one."""
CELLS = 6
STREAM_CHARACTERS = 600
SHOWN_CHARACTERS = 300
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


@dataclass(frozen=True, slots=True)
class Told:
    text: str
    cells: tuple[SeenCell, ...] = ()
    """Those whose source is in the text as it is, all of it."""


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
    return Told("\n".join(reversed(blocks)), tuple(seen))


def describe_cell(cell: RanCell, most: int = FAILED_CHARACTERS) -> Told:
    """One cell that is asked for."""
    block, whole = _block(cell, most, _hider())
    return Told(block, (_seen(cell.cell_id, cell.source),) if whole and cell.cell_id is not None else ())


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
