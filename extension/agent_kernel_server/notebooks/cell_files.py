"""Reads and changes the cells of a notebook that no page has open, through the contents manager."""

import json
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from jupyter_core.utils import ensure_async
from tornado.web import HTTPError

from agent_kernel.errors import ToolFailed
from agent_kernel.protocol.pages import MOST_READ, REMOVED_CHARACTERS, CellChange, PageAnswer, ReadCells, Refusal
from agent_kernel.tools.builtin.cells import cell_states, is_locked, locks_of, refused, text_of

Notebook = dict[str, Any]
NO_IDS = "The file of this notebook has no cell ids (its format is older than 4.5). Nothing was changed."


class CellFiles:
    def __init__(self, contents: Callable[[], Any]) -> None:
        self._contents = contents

    async def read(self, path: str, request: ReadCells) -> tuple[PageAnswer, str]:
        """The cells, and when the file was saved. Raises `ToolFailed`."""
        notebook, saved, writable = await self._load(path)
        answer = _answer(notebook, request.cell_ids, request.first, request.count)
        return answer.model_copy(
            update={"refuses": () if writable else ("change", "run")}
        ), f"{saved:%Y-%m-%d %H:%M} UTC"

    async def change(self, path: str, change: CellChange) -> PageAnswer:
        """Raises `ToolFailed`; nothing was changed then."""
        notebook, saved, _ = await self._load(path)
        if not all(isinstance(cell, dict) and isinstance(cell.get("id"), str) for cell in notebook["cells"]):
            raise ToolFailed(NO_IDS)
        removed = _removed(notebook, change)
        refusal = change_cells(notebook, change)
        if refusal is None:
            try:
                await self._save(path, notebook, saved)
            except ToolFailed as error:
                raise ToolFailed(f"{error} Nothing was changed.") from None
            notebook, *_ = await self._load(path)  # it may be saved in another form, as by jupytext or a formatter
        answer = _answer(notebook, (change.cell_id,), 0, 0)
        return answer.model_copy(update={"refusal": refusal, "removed": removed})

    async def put_outputs(self, path: str, cell_id: str, outputs: Sequence[Any], count: int | None) -> None:
        """Write what a cell has put out. Raises `ToolFailed` where the file can't have it."""
        notebook, saved, _ = await self._load(path)
        found = [cell for cell in _found(notebook["cells"], cell_id) if cell.get("cell_type") == "code"]
        if not found:
            raise ToolFailed("The cell is not there any more.")
        found[0]["outputs"], found[0]["execution_count"] = list(outputs), count
        await self._save(path, notebook, saved)

    async def _load(self, path: str) -> tuple[Notebook, datetime, bool]:
        """The notebook, when it was saved, and whether it may be. Raises `ToolFailed`."""
        try:
            model = await ensure_async(self._contents().get(path, type="notebook", content=True))
        except HTTPError as error:
            raise ToolFailed(f"The notebook {path} can't be read: {error.log_message or error.reason}.") from None
        notebook = model["content"]
        if not isinstance(notebook, dict) or not isinstance(notebook.get("cells"), list):
            raise ToolFailed(f"{path} is not a notebook of format 4.")
        return notebook, model["last_modified"], model.get("writable") is not False

    async def _save(self, path: str, notebook: Notebook, saved: datetime) -> None:
        """Raises `ToolFailed` with the reason."""
        try:
            now = await ensure_async(self._contents().get(path, type="notebook", content=False))
            if now.get("writable") is False:
                raise ToolFailed(refused("read_only", "", changed=True))
            if now["last_modified"] != saved:
                raise ToolFailed("The notebook's file was changed in the same moment.")
            await ensure_async(self._contents().save({"type": "notebook", "format": "json", "content": notebook}, path))
        except HTTPError as error:
            raise ToolFailed(f"The notebook {path} can't be saved: {error.log_message or error.reason}.") from None


def change_cells(notebook: Notebook, change: CellChange) -> Refusal | None:
    """Change a notebook of format 4 in place; why nothing was changed, or `None`."""
    cells: list[Any] = notebook["cells"]
    found = _found(cells, change.cell_id)
    if len(found) > 1:
        return "twice"
    if change.action == "insert":
        return None if found else _put(cells, _new_cell(change), change.after)
    if not found:
        return "gone"
    cell = found[0]
    if text_of(cell.get("source")) != change.expected:
        return "changed"
    if is_locked(change.action, locks_of(cell)):
        return "locked"
    match change.action:
        case "edit":
            cell["source"] = change.source
            return None
        case "delete":
            cells.remove(cell)
            return None
        case "move":
            before = list(cells)
            cells[:] = [one for one in cells if one is not cell]
            if (refusal := _put(cells, cell, change.after)) is not None:
                cells[:] = before
            return refusal


def _removed(notebook: Notebook, change: CellChange) -> dict[str, Any] | None:
    """As `PageAnswer.removed`, before it is."""
    cell = next(iter(_found(notebook["cells"], change.cell_id)), None) if change.action == "delete" else None
    return cell if cell is not None and len(json.dumps(cell)) <= REMOVED_CHARACTERS else None


def _put(cells: list[Any], cell: dict[str, Any], after: str | None) -> Refusal | None:
    if not after:
        cells.insert(0 if after is None else len(cells), cell)
        return None
    found = _found(cells, after)
    if len(found) != 1:
        return "twice" if found else "gone"
    cells.insert(next(index for index, one in enumerate(cells) if one is found[0]) + 1, cell)
    return None


def _new_cell(change: CellChange) -> dict[str, Any]:
    if change.cell is not None:
        return {**change.cell, "id": change.cell_id}
    cell = {"cell_type": change.cell_type, "id": change.cell_id, "metadata": {}, "source": change.source}
    return cell | {"execution_count": None, "outputs": []} if change.cell_type == "code" else cell


def _found(cells: Sequence[Any], cell_id: str) -> list[dict[str, Any]]:
    return [cell for cell in cells if isinstance(cell, dict) and cell.get("id") == cell_id]


def _answer(notebook: Notebook, cell_ids: Sequence[str | int] | None, first: int, count: int) -> PageAnswer:
    cells = [cell for cell in notebook["cells"] if isinstance(cell, dict)]
    if cell_ids is None:
        wanted = cell_states(cells[first : first + count], first)
    else:
        wanted = [state for state in cell_states(cells) if {state.cell_id, state.execution_count} & set(cell_ids)]
    info = notebook.get("metadata", {}).get("language_info")
    language = info.get("name") if isinstance(info, dict) else None
    return PageAnswer(
        request_id="",
        cells=tuple(wanted[:MOST_READ]),
        total=len(cells),
        language=language if isinstance(language, str) else "python",
    )
