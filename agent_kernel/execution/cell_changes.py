"""`CellChanges`: the ways back from the changes of cells that calls have made, kept in the server's memory."""

import asyncio
import contextlib
import json
from collections import OrderedDict
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, Literal

from agent_kernel.errors import ToolFailed
from agent_kernel.protocol.kernel import KeptChange
from agent_kernel.protocol.pages import CellChange, CellState, PageAnswer, ReadCells
from agent_kernel.protocol.vocabulary import ChangeState
from agent_kernel.tools.builtin.cells import refused
from agent_kernel.tools.executor import NobodyKnows, NotebookEditor

KEPT_CALLS = 50
KEPT_CHARACTERS = 10_000_000
"""Of all kept sources together; the oldest are dropped first."""
CHANGED = "The cell {cell} was changed since. Nothing was put back."
MOVED = "The cell {cell} was moved since. Nothing was put back."
NO_PLACE = "The cell that {cell} stood below is no longer there. Nothing was put back."
GONE = "There is no cell {cell} in the notebook now. Nothing was put back."


@dataclass(frozen=True)
class WayBack:
    """What undoes a call's change; once that is done, what does it again."""

    change: CellChange
    """Its `expected` is the source as the call, or the undo, left it."""
    notebook: NotebookEditor
    below: str | None = None
    """For a move: the id of the cell that it stands below; `None` for the notebook's beginning."""
    state: ChangeState = "as_left"

    @cached_property
    def characters(self) -> int:
        whole = len(json.dumps(self.change.cell)) if self.change.cell is not None else 0
        return len(self.change.expected or "") + len(self.change.source) + whole


class _NotAsLeft(ToolFailed):
    """The cell was changed since the call."""


class CellChanges:
    """One per kernel. Indexed by the approval's id."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, WayBack] = OrderedDict()
        self._undoing = asyncio.Lock()

    def keep(self, approval_id: str, way_back: WayBack) -> str:
        """Returns what `Outcome.undo` is for it."""
        self._kept[approval_id] = way_back
        while len(self._kept) > KEPT_CALLS or sum(one.characters for one in self._kept.values()) > KEPT_CHARACTERS:
            self._kept.popitem(last=False)
        if way_back.change.action == "delete":
            return ""
        return datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")

    def has(self, approval_id: str) -> bool:
        return approval_id in self._kept

    def changes(self) -> list[KeptChange]:
        """The oldest first. A cell that was changed since is known as such only after an undo was tried."""
        return [KeptChange(approval_id=approval_id, state=one.state) for approval_id, one in self._kept.items()]

    async def undo(self, approval_id: str, *, redo: bool = False) -> None:
        """Undo a change, or do it again; nothing where that was done before. Raises `ToolFailed`, and changes nothing,
        where the cell is not as it was left."""
        async with self._undoing:
            kept = self._kept[approval_id]
            if (kept.state == "undone") != redo:
                return
            try:
                opposite = await _put_back(kept)
            except NobodyKnows as unknown:
                raise ToolFailed(str(unknown)) from None
            except _NotAsLeft:
                if not redo:
                    self._kept[approval_id] = replace(kept, state="changed")
                raise
            for other, one in self._kept.items():  # an earlier change of this cell may be as it was left again
                if one.state == "changed" and one.change.cell_id == kept.change.cell_id:
                    self._kept[other] = replace(one, state="as_left")
            if opposite is not None:
                self._kept[approval_id] = replace(opposite, state="as_left" if redo else "undone")
            else:
                del self._kept[approval_id]


async def _put_back(kept: WayBack) -> WayBack | None:
    """Returns the way to what was there before."""
    change = kept.change
    was: CellState | None = None
    if change.action in ("delete", "move"):
        found = (await kept.notebook.ask(ReadCells(cell_ids=(change.cell_id,)))).answer.cells
        was = found[0] if len(found) == 1 else None
    above = await cell_above(kept.notebook, was.index) if was is not None else None
    if change.action == "move" and was is not None and above != kept.below:
        raise _NotAsLeft(MOVED.format(cell=change.cell_id))
    answer = (await kept.notebook.ask(change)).answer
    match answer.refusal:
        case None:
            return await way_back(kept.notebook, change, was, above, answer)
        case "changed":
            raise _NotAsLeft(CHANGED.format(cell=change.cell_id))
        case "gone":
            here = change.action == "insert" or answer.cells
            raise _NotAsLeft((NO_PLACE if here else GONE).format(cell=change.cell_id))
        case refusal:
            raise ToolFailed(refused(refusal, change.cell_id, answer.detail))


async def way_back(
    notebook: NotebookEditor, made: CellChange, was: CellState | None, stood_below: str | None, answer: PageAnswer
) -> WayBack | None:
    """What undoes a change that was made, with this answer; `None` where nothing does. `was` is the cell before it,
    where that is known, and `stood_below` the id of the cell that it stood below."""
    cell_id, below = made.cell_id, None
    match made.action, answer.cells:
        case "insert", [CellState(source=left)]:
            back = CellChange(action="delete", cell_id=cell_id, expected=left)
        case "edit", [CellState(source=left)]:
            back = CellChange(action="edit", cell_id=cell_id, expected=left, source=made.expected or "")
        case "delete", _ if was is not None and (was.cell_type in ("code", "markdown") or answer.removed is not None):
            back = _added_again(was, answer.removed, stood_below)
        case "move", [CellState(index=index)]:
            back = made.model_copy(update={"after": stood_below})
            below = made.after
            with contextlib.suppress(ToolFailed):  # neither page nor file is there any more, but the cell was moved
                below = await cell_above(notebook, index)
        case _:
            return None
    return WayBack(back, notebook, below)


def _added_again(cell: CellState, whole: dict[str, Any] | None, after: str | None) -> CellChange:
    """What adds a deleted cell again: the whole of it, where that is known, or its source alone."""
    kind: Literal["code", "markdown"] = "markdown" if cell.cell_type == "markdown" else "code"
    return CellChange(
        action="insert", cell_id=cell.cell_id, source=cell.source, cell_type=kind, cell=whole, after=after
    )


async def cell_above(notebook: NotebookEditor, index: int) -> str | None:
    """The id of the cell above the one with this number; `None` for the first one."""
    if index == 0:
        return None
    cells = (await notebook.ask(ReadCells(first=index - 1, count=1))).answer.cells
    return cells[0].cell_id if cells else None
