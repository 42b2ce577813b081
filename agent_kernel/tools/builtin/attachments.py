"""Finds a picture that is attached to a Markdown cell of a notebook, as the notebook was saved."""

from pathlib import Path, PurePath
from typing import Any

from agent_kernel.errors import ToolFailed
from agent_kernel.tools.builtin.notebooks import NOTEBOOK_BYTES, cells_of
from agent_kernel.tools.builtin.pictures import read_below

SCHEME = "attachment:"
_KINDS = ("image/png", "image/jpeg")
_BESIDE = "Save the picture beside the notebook and write the file's name"


def attached_name(address: str) -> str | None:
    """The attachment that an address in Markdown names; `None` where it names something else."""
    scheme, name = address[: len(SCHEME)], address[len(SCHEME) :]
    return name if scheme.lower() == SCHEME else None


def read_attachment(root: Path, notebook: str | None, name: str, cell_id: str | None = None) -> str:
    """A picture in base64: of the nearest Markdown cell above the cell `cell_id` that has an attachment of this name.
    Where nobody knows the cell, or it is not saved yet, only one may have it.

    `notebook` is the path by which others know it: the file is in `root`, the folder in which its kernel was started.
    Takes long: call it in a thread. Raises `ToolFailed`, in words that follow a colon.
    """
    cells = _saved_cells(root, notebook)
    place = next(
        (number for number, cell in enumerate(cells) if cell_id is not None and cell.get("id") == cell_id), None
    )
    found = [cell for cell in cells[:place] if name in _attachments(cell)]
    if not found:
        where = "in the saved notebook" if place is None else "above this cell in the saved notebook"
        raise ToolFailed(f"no Markdown cell {where} has this attachment. If you see it there, save the notebook first")
    if place is None and len(found) > 1:
        raise ToolFailed(
            f"{len(found)} Markdown cells have an attachment of this name, and it is not known which of them is above "
            "the prompt. Give it another name, or save the notebook if the prompt's cell is new"
        )
    return _picture(_attachments(found[-1])[name])


def _saved_cells(root: Path, notebook: str | None) -> list[dict[str, Any]]:
    file = PurePath(notebook or "").name
    if not file.endswith(".ipynb"):
        raise ToolFailed(f"the file of this notebook is not known here. {_BESIDE}")
    try:
        raw = read_below(root, file, NOTEBOOK_BYTES)
    except FileNotFoundError:
        raise ToolFailed("the notebook is not in its kernel's folder. Save the notebook first") from None
    except ToolFailed as reason:
        raise ToolFailed(f"the saved notebook is not read: {reason}") from None
    cells = cells_of(raw)
    if cells is None:
        raise ToolFailed(f"the saved notebook is not of format 4. {_BESIDE}")
    return cells


def _attachments(cell: dict[str, Any]) -> dict[str, Any]:
    attachments = cell.get("attachments") if cell.get("cell_type") == "markdown" else None
    return attachments if isinstance(attachments, dict) else {}


def _picture(bundle: Any) -> str:
    data = bundle if isinstance(bundle, dict) else {}
    for kind in _KINDS:
        if kind in data:
            lines = data[kind] if isinstance(data[kind], list) else [data[kind]]
            if not all(isinstance(line, str) for line in lines):
                raise ToolFailed("it is no base64")
            return "".join(lines)
    raise ToolFailed("it is neither PNG nor JPEG")
