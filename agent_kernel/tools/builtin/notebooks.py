"""Reads saved notebooks for the model: sources in full, outputs as short text."""

import json
from pathlib import Path
from typing import Any

from agent_kernel.errors import ToolFailed
from agent_kernel.tools.builtin.cells import cell_states, tell
from agent_kernel.tools.builtin.paths import existing, read_text

NOTEBOOK_BYTES = 200 * 1024 * 1024


def read_notebook(root: Path, path: str, first_cell: int = 0, cells: int = 100, approved: Path | None = None) -> str:
    """The cells as text, with sources and shortened outputs. Raises `ToolFailed` if the file is not a notebook."""
    text = read_text(existing(path, root, approved), path, NOTEBOOK_BYTES).text
    found = cells_of(text)
    if found is None:
        raise ToolFailed(f"{path!r} is not a Jupyter notebook of format 4. Use read_file.")
    if found and first_cell >= len(found):
        raise ToolFailed(f"{path!r} has {len(found)} cells, numbered from 0; there is no cell {first_cell}.")
    shown = cell_states(found[first_cell : first_cell + cells], first_cell)
    head = f"{path}, as it was last saved: {len(found)} cells, numbered from 0." if found else f"{path}: no cells."
    return tell(head, shown, len(found))[0]


def cells_of(notebook: str | bytes) -> list[dict[str, Any]] | None:
    """The cells of a notebook's file; `None` if it is not of format 4."""
    try:
        found = json.loads(notebook)["cells"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return found if isinstance(found, list) and all(isinstance(cell, dict) for cell in found) else None
