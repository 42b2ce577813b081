"""Reads the pictures that a prompt names: files in the notebook's folder, and attachments of Markdown cells."""

import errno
import os
from pathlib import Path, PurePath, PurePosixPath
from typing import Any

from agent_kernel.errors import ToolFailed
from agent_kernel.tools.builtin.cells import NOTEBOOK_BYTES, cells_of
from agent_kernel.tools.builtin.safe_open import FileTooLarge, is_link_on_the_way, read_bytes

MOST_BYTES = 20 * 1024 * 1024
SCHEME = "attachment:"
_KINDS = ("image/png", "image/jpeg")
_BESIDE = "Save the picture beside the notebook and write the file's name"


def read_picture(root: Path, name: str) -> bytes:
    """Read a picture's file. Raises `ToolFailed`, with a message that continues a sentence after a colon."""
    try:
        return read_below(root, name, MOST_BYTES)
    except FileNotFoundError:
        raise ToolFailed("there is no such file in the notebook's folder") from None


def read_below(root: Path, name: str, most: int) -> bytes:
    """Read a file of at most `most` bytes below `root`, without following links: see `safe_open`. Raises
    `FileNotFoundError`, and `ToolFailed` with a message that continues a sentence after a colon."""
    place = place_below(root, name)
    try:
        return read_bytes(place, most)
    except FileNotFoundError:
        raise
    except FileTooLarge as large:
        raise ToolFailed(f"it has {large.size:,} bytes, and at most {most:,} are read") from None
    except (OSError, ValueError) as error:
        raise ToolFailed(reason_for(error)) from None


def place_below(root: Path, name: str) -> Path:
    """The path of a file below `root`, for `safe_open`. Raises `ToolFailed`, as `read_below`."""
    path = PurePosixPath(name)
    if path.is_absolute() or Path(name).is_absolute() or ".." in path.parts:
        raise ToolFailed("only files in the notebook's folder are read")
    if not path.parts:
        raise ToolFailed("it has no name")
    if any(part.startswith(".") for part in path.parts):
        raise ToolFailed("hidden files are not read")
    return Path(os.path.realpath(root)).joinpath(*path.parts)


def reason_for(error: OSError | ValueError) -> str:
    if not isinstance(error, OSError):
        return "its name can't be used"
    if is_link_on_the_way(error):
        return "links are not followed"
    if error.errno in (errno.EISDIR, errno.EINVAL):
        return "it is not a file"
    return error.strerror or "its name can't be used"


def attached_name(address: str) -> str | None:
    """The attachment's name in a Markdown address; `None` for any other address."""
    scheme, name = address[: len(SCHEME)], address[len(SCHEME) :]
    return name if scheme.lower() == SCHEME else None


def read_attachment(root: Path, notebook: str | None, name: str, cell_id: str | None = None) -> str:
    """Read an attached picture, in base64, from the nearest Markdown cell above the cell `cell_id` that has an
    attachment of this name. If that cell is unknown or not saved yet, the name must be unique.

    `notebook` is the server's path of the notebook, whose file is in `root`, the folder in which its kernel was
    started. It blocks: call it in a thread. Raises `ToolFailed`, with a message that continues a sentence.
    """
    cells = saved_cells(root, notebook)
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


def saved_cells(root: Path, notebook: str | None) -> list[dict[str, Any]]:
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
