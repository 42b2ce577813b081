"""Reads saved notebooks for the model: sources in full, outputs as short text."""

import json
from pathlib import Path
from typing import Any

from agent_kernel.errors import ToolFailed
from agent_kernel.tools.builtin.paths import existing, read_text
from agent_kernel.tools.truncation import TextLimits, truncate

NOTEBOOK_BYTES = 200 * 1024 * 1024
_OUTPUT = TextLimits(characters=1_500, lines=40)
_SOURCE = TextLimits(characters=20_000, lines=800)
_TEXT_TYPES = ("text/plain", "text/markdown", "application/json")


def read_notebook(root: Path, path: str, first_cell: int = 0, cells: int = 100, approved: Path | None = None) -> str:
    """The cells as text, with sources and shortened outputs. Raises `ToolFailed` if the file is not a notebook."""
    text = read_text(existing(path, root, approved), path, NOTEBOOK_BYTES).text
    found = cells_of(text)
    if found is None:
        raise ToolFailed(f"{path!r} is not a Jupyter notebook of format 4. Use read_file.")
    if found and first_cell >= len(found):
        raise ToolFailed(f"{path!r} has {len(found)} cells, numbered from 0; there is no cell {first_cell}.")
    last = min(len(found), first_cell + cells)
    more = f" Read on with first_cell={last}." if last < len(found) else ""
    head = f"{path}: {len(found)} cells." if found else f"{path}: no cells."
    shown = [_cell(number, found[number]) for number in range(first_cell, last)]
    return "\n\n".join([head + more, *shown])


def cells_of(notebook: str | bytes) -> list[dict[str, Any]] | None:
    """The cells of a notebook's file; `None` if it is not of format 4."""
    try:
        found = json.loads(notebook)["cells"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return found if isinstance(found, list) and all(isinstance(cell, dict) for cell in found) else None


def _cell(number: int, cell: dict[str, Any]) -> str:
    kind = str(cell.get("cell_type", "raw"))
    ran = cell.get("execution_count")
    lines = [
        f"[{number}] {kind}{f', ran as [{ran}]' if ran else ''}",
        truncate(text_of(cell.get("source")), _SOURCE).text,
    ]
    outputs = cell.get("outputs")
    for output in outputs if isinstance(outputs, list) else []:
        if isinstance(output, dict):
            lines.append(f"--- output: {truncate(output_text(output), _OUTPUT).text}")
    return "\n".join(lines)


def output_text(output: dict[str, Any]) -> str:
    match output.get("output_type"):
        case "stream":
            return text_of(output.get("text")).rstrip("\n")
        case "error":
            return f"{output.get('ename')}: {output.get('evalue')}"
        case _:
            data = output.get("data")
            bundle: dict[str, Any] = data if isinstance(data, dict) else {}
            for kind in _TEXT_TYPES:
                if kind in bundle:
                    content = bundle[kind]
                    return text_of(content) if kind != "application/json" else json.dumps(content)
            return f"({', '.join(sorted(bundle)) or 'empty'})"


def text_of(value: Any) -> str:
    """A multi-line field, which notebooks contain as one string or as a list of lines."""
    return "".join(map(str, value)) if isinstance(value, list) else str(value or "")
