"""Notebooks' cells as the model is told of them, from a page or a file, and the words of refusals."""

import difflib
import hashlib
import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

from pydantic import ValidationError

from agent_kernel.errors import ToolFailed
from agent_kernel.protocol.calls import SeenCell, source_digest
from agent_kernel.protocol.figures import plural
from agent_kernel.protocol.pages import MOST_OUTPUTS, CellState, Lock, Refusal
from agent_kernel.tools.builtin.paths import existing, read_text
from agent_kernel.tools.truncation import TextLimits, truncate

_OUTPUT = TextLimits(characters=1_500, lines=40)
_SOURCE = TextLimits(characters=20_000, lines=800)
_ALL = 22_000
"""Characters of cells in one text, within what a call's result may have. At least one cell is told."""
_TITLE = 400
_NOW = 8_000
"""Characters of a source that is told with a refusal."""
_DIFFERENCE = 3_000
_TEXT_TYPES = ("text/plain", "text/markdown", "application/json")
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_LIBRARY = re.compile(
    r"File (?:\S*[/\\](?:site-packages|dist-packages|lib[/\\]python3\.\d+)[/\\]|(?=\S+\.p(?:yx|xi):\d))"
)

_REFUSALS: Mapping[Refusal, tuple[str, str]] = {
    "gone": ("There is no cell {cell} in the notebook now.", "Read the notebook again."),
    "twice": ("Several cells have the id {cell}, so it is not clear which is meant.", "Nothing was changed."),
    "changed": ("The cell {cell} was changed since you saw it.", "Nothing was done."),
    "locked": ("The cell {cell} is locked (its metadata has editable or deletable false).", "Nothing was changed."),
    "read_only": ("This notebook is read-only.", "Nothing was changed."),
    "running": ("The cell {cell} is running.", "Nothing was done."),
    "kind": ("The cell {cell} is of a type that can't be run.", "Nothing was done."),
    "no_kernel": ("The notebook has no kernel that the cell could run in.", "Nothing ran."),
    "closed": ("The page has closed the notebook.", "Nothing was done."),
    "failed": ("It could not be done.", ""),
}
"""Why, and what is said beside it where nothing was done."""
NEVER_TOLD = "You have not seen the source of the cell {cell}: read the notebook first (read_notebook)."


def refused(refusal: Refusal, cell_id: str, detail: str = "", *, changed: bool = False) -> str:
    """`changed`: the same call has changed the cell before."""
    why, nothing_done = _REFUSALS[refusal]
    return " ".join(part for part in (why.format(cell=cell_id), "" if changed else nothing_done, detail) if part)


def added_cell_id(approval_id: str) -> str:
    """The id of a cell that a call adds: the same one if the call is repeated."""
    return f"ak-{hashlib.sha256(approval_id.encode()).hexdigest()[:12]}"


def cell_states(cells: Iterable[Mapping[str, Any]], first: int = 0) -> list[CellState]:
    """The cells of a notebook's file from number `first` on, of which any part may be malformed. A cell without an id
    has an empty one."""
    states: list[CellState] = []
    for index, cell in enumerate(cells, first):
        count, outputs = cell.get("execution_count"), cell.get("outputs")
        found = [one for one in outputs if isinstance(one, dict)] if isinstance(outputs, list) else []
        known: dict[str, Any] = {
            "cell_id": cell.get("id") if isinstance(cell.get("id"), str) else "",
            "cell_type": str(cell.get("cell_type", "raw"))[:40],
            "index": index,
            "source": text_of(cell.get("source")),
            "execution_count": count if isinstance(count, int) else None,
            "locks": locks_of(cell),
            "outputs": found[:MOST_OUTPUTS],
            "more_outputs": max(0, len(found) - MOST_OUTPUTS),
        }
        try:
            states.append(CellState(**known))
        except ValidationError:
            states.append(CellState(**{**known, "cell_id": "", "source": "(it can't be read)"}))
    return states


def locks_of(cell: Mapping[str, Any]) -> tuple[Lock, ...]:
    """Of a cell in a notebook's file."""
    metadata = cell.get("metadata")
    return tuple(lock for lock in get_args(Lock) if isinstance(metadata, dict) and metadata.get(lock) is False)


def is_locked(action: str, locks: Collection[Lock]) -> bool:
    """Whether a cell with these locks may not be changed so (`CellChange.action`)."""
    return (action in ("edit", "delete") and "editable" in locks) or (action == "delete" and "deletable" in locks)


def tell(head: str, cells: Sequence[CellState], total: int) -> tuple[str, tuple[SeenCell, ...]]:
    """The cells as text below a head, and those whose whole source it has."""
    parts: list[str] = []
    seen: list[SeenCell] = []
    room = _ALL
    for cell in cells:
        text, is_whole = _cell(cell)
        if parts and len(text) > room:
            break
        room -= len(text)
        parts.append(text)
        if is_whole and cell.cell_id:
            seen.append(seen_cell(cell))
    last = cells[len(parts) - 1].index + 1 if parts else 0
    more = f" Read on with first_cell={last}." if parts and last < total else ""
    return "\n\n".join([head + more, *parts]), tuple(seen)


def tell_one(cell: CellState, most: int) -> tuple[str, SeenCell | None]:
    """One cell in at most so many characters, half of them for its outputs. It is seen if its whole source is told."""
    source = truncate(cell.source, TextLimits(most // 2, lines=200))
    outputs = truncate("\n".join(outputs_of(cell)), TextLimits(most // 2 - _TITLE, lines=200))
    text = "\n".join(part for part in (_title(cell), source.text, outputs.text) if part)
    return text, seen_cell(cell) if cell.cell_id and not source.truncated else None


def seen_cell(cell: CellState) -> SeenCell:
    return SeenCell(cell_id=cell.cell_id, digest=source_digest(cell.source))


def as_it_is_now(cell: CellState, known: str | None) -> tuple[str, tuple[SeenCell, ...]]:
    """The source of a cell that was changed, and the difference to the source that the model knows, if that is
    `known`."""
    if len(cell.source) > _NOW:
        return f"Its source is now {len(cell.source):,} characters long: read the notebook again.", ()
    text = f"Its source now:\n{cell.source}"
    if known is not None:
        lines = difflib.unified_diff(known.splitlines(), cell.source.splitlines(), "seen", "now", lineterm="", n=1)
        difference = "\n".join(lines)
        if len(difference) <= _DIFFERENCE:
            text += f"\nThe difference:\n{difference}"
    return text, (seen_cell(cell),)


def _cell(cell: CellState) -> tuple[str, bool]:
    source = truncate(cell.source, _SOURCE)
    return "\n".join([_title(cell), source.text, *outputs_of(cell)]), not source.truncated


def _title(cell: CellState) -> str:
    facts = [cell.cell_type, f"number {cell.index}"]
    if cell.running:
        facts.append("runs now")
    if cell.changed:
        facts.append("changed since it ran")
    if cell.locks:
        facts.append("locked against edits" if "editable" in cell.locks else "locked against deletion")
    number = f"[{cell.execution_count or ' '}] " if cell.cell_type == "code" else ""
    name = f"cell:{cell.cell_id}" if cell.cell_id else "a cell without an id"
    return f"{number}{name} ({', '.join(facts)})"


def outputs_of(cell: CellState) -> list[str]:
    """A text for each output, bounded."""
    shown = [f"--- output: {truncate(output_text(output), _OUTPUT).text}" for output in cell.outputs]
    return [*shown, f"--- {plural(cell.more_outputs, 'more output')}"] if cell.more_outputs else shown


def output_text(output: Mapping[str, Any]) -> str:
    match output.get("output_type"):
        case "stream":
            return text_of(output.get("text")).rstrip("\n")
        case "error":
            parts = output.get("traceback")
            trace = "\n".join(map(_frame, parts)) if isinstance(parts, list) else ""
            return trace or f"{output.get('ename')}: {output.get('evalue')}"
        case _:
            data = output.get("data")
            bundle: dict[str, Any] = data if isinstance(data, dict) else {}
            for kind in _TEXT_TYPES:
                if kind in bundle:
                    return json.dumps(bundle[kind]) if kind == "application/json" else text_of(bundle[kind])
            return f"({', '.join(sorted(map(str, bundle))) or 'empty'})"


def _frame(part: Any) -> str:
    """A part of a traceback as IPython writes it. Of a library's frame the first line, which names it, is enough."""
    text = _ESCAPES.sub("", str(part))
    first, _, _ = text.partition("\n")
    return _LIBRARY.sub("File ", first) if _LIBRARY.match(first) else text


def text_of(value: Any) -> str:
    """A multi-line field, which notebooks contain as one string or as a list of lines."""
    return "".join(map(str, value)) if isinstance(value, list) else str(value or "")


NOTEBOOK_BYTES = 200 * 1024 * 1024


def read_notebook(root: Path, path: str, first_cell: int = 0, cells: int = 100, approved: Path | None = None) -> str:
    """The cells as text, with sources and shortened outputs. Raises `ToolFailed` if the file is not a notebook."""
    text = read_text(existing(path, root, approved), path, NOTEBOOK_BYTES).text
    found = cells_of(text)
    if found is None:
        raise ToolFailed(f"{path!r} is not a Jupyter notebook of format 4. Use read_file.")
    count = plural(len(found), "cell") if found else "no cells"
    if found and first_cell >= len(found):
        raise ToolFailed(f"{path!r} has {count}, numbered from 0; there is no cell {first_cell}.")
    shown = cell_states(found[first_cell : first_cell + cells], first_cell)
    head = f"{path}, as it was last saved: {count}, numbered from 0." if found else f"{path}: {count}."
    return tell(head, shown, len(found))[0]


def cells_of(notebook: str | bytes) -> list[dict[str, Any]] | None:
    """The cells of a notebook's file; `None` if it is not of format 4."""
    try:
        found = json.loads(notebook)["cells"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return found if isinstance(found, list) and all(isinstance(cell, dict) for cell in found) else None
