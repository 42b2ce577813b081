"""`NotebookExecutor`: as `KernelExecutor`, and what concerns the notebook itself goes to its page or its file.

A change is bound to the digest of the source that the model has seen, and is made only where the cell still has it.
"""

import asyncio
import json
import posixpath
import re
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

from agent_kernel.errors import ToolFailed
from agent_kernel.execution.cell_changes import CellChanges, cell_above, way_back
from agent_kernel.execution.kernel_executor import KernelExecutor
from agent_kernel.execution.link import RequestFailed
from agent_kernel.protocol.calls import ApprovedCall, Outcome, SeenCell, ToolVerdict, source_digest
from agent_kernel.protocol.figures import plural
from agent_kernel.protocol.file_cards import CellCard
from agent_kernel.protocol.kernel import MENTION_CHARACTERS, AskWhetherCellWaits, Mention
from agent_kernel.protocol.pages import CellChange, CellState, PageAnswer, ReadCells, RunCell
from agent_kernel.protocol.views import Preview
from agent_kernel.tools.builtin.cells import (
    NEVER_TOLD,
    added_cell_id,
    as_it_is_now,
    is_locked,
    outputs_of,
    refused,
    seen_cell,
    tell,
    tell_one,
)
from agent_kernel.tools.builtin.declarations import CHANGES_CELLS
from agent_kernel.tools.builtin.mentioned_files import cell_named
from agent_kernel.tools.executor import Answered, NobodyKnows, NotebookEditor, OutputSink
from agent_kernel.tools.review.preview import diff, warnings

WAITS_SECONDS = 3.0
KNOWN_SOURCES = 200
"""How many sources are kept to tell the difference to a changed one."""
DELETED = "The cell {cell} was deleted while it ran. The kernel may have run it to its end, or run it still."
OWN_CELL = "The cell {cell} is the one of the prompt itself. Nothing was done."
RUNS_PROMPT = "This cell is a prompt for an agent, whose run begins when this one has ended. Nothing was done."
_PROMPT = re.compile(r"\s*%%agent(?!\S)")
RUNS_HERE = (
    "A cell waits for the end of this run, so no other cell can run before that. Nothing ran. Use run_python, which "
    "runs inside of the cell that waits."
)


class _Stale(ToolFailed):
    """With what the model is told of the cell as it is now."""

    def __init__(self, message: str, cells: tuple[SeenCell, ...]) -> None:
        super().__init__(message)
        self.cells = cells


class NotebookExecutor(KernelExecutor):
    def __init__(
        self,
        *kernel: Any,
        notebook: NotebookEditor,
        changes: CellChanges,
        cell_id: str | None,
        own_tools: frozenset[str] = frozenset(),
    ) -> None:
        """`kernel` is for `KernelExecutor`; `changes` are the kernel's; `cell_id` is the run's own cell. `own_tools`
        are the names of the notebook's own tools, which run in the kernel also where built-in ones have the same
        name."""
        super().__init__(*kernel)
        self._notebook = notebook
        self._changes = changes
        self._cell_id = cell_id
        self._tools_here = CHANGES_CELLS - own_tools
        self._reads_here = "read_notebook" not in own_tools
        self._running: set[str] = set()
        self._known: OrderedDict[str, str] = OrderedDict()
        """Sources by digest."""

    async def execute(self, call: ApprovedCall, emit: OutputSink) -> Outcome:
        arguments: dict[str, Any] = json.loads(call.arguments_json)
        try:
            if call.tool_name in self._tools_here:
                return await self._act(call, arguments)
            if self._reads_here and call.tool_name == "read_notebook" and self._is_this(arguments.get("path")):
                return await self._read(**{key: arguments[key] for key in ("first_cell", "cells") if key in arguments})
        except _Stale as stale:
            return Outcome("error", str(stale), cells=stale.cells)
        except ToolFailed as error:
            return Outcome("error", str(error))
        except NobodyKnows as unknown:
            return Outcome("unknown", str(unknown))
        return await super().execute(call, emit)

    async def interrupt(self, approval_id: str) -> bool:
        if approval_id not in self._running:
            return await super().interrupt(approval_id)
        await self._notebook.interrupt()
        return True

    async def undo(self, approval_id: str, *, redo: bool = False) -> None:
        """Raises `ToolFailed`, `KernelGone`."""
        if not self._changes.has(approval_id):
            await super().undo(approval_id, redo=redo)
        else:
            await self._changes.undo(approval_id, redo=redo)

    async def tool_verdict(self, tool_name: str, arguments_json: str) -> ToolVerdict:
        if tool_name in self._tools_here:
            return ToolVerdict("ask")
        return await super().tool_verdict(tool_name, arguments_json)

    async def cell_card(self, tool_name: str, arguments_json: str, seen: str | None) -> CellCard:
        if tool_name not in self._tools_here:
            return CellCard()
        arguments: dict[str, Any] = json.loads(arguments_json)
        try:
            if _runs(tool_name, arguments):
                await self._refuse_if_a_cell_waits()
            if tool_name == "insert_cell":
                cell, (place, language) = None, await self._place(arguments)
            else:
                cell, language = await self._cell(tool_name, arguments, seen)
                place = (await self._place(arguments))[0] if tool_name == "move_cell" else ""
            if _runs(tool_name, arguments) and self._cell_id is not None:
                _refuse_prompts(arguments.get("source", cell.source if cell is not None else ""))
        except _Stale as stale:
            return CellCard(refusal=str(stale), cells=stale.cells)
        except (ToolFailed, NobodyKnows) as refusal:
            return CellCard(refusal=str(refusal))
        preview = _preview(tool_name, arguments, cell, language, [place] if place else [])
        runs = tool_name == "run_cell" and cell is not None and cell.cell_type == "code"
        found = warnings("run_python", {"code": cell.source}) if runs and cell is not None else []
        return CellCard(preview, tuple(found))

    async def read_mentions(self, names: Sequence[str]) -> tuple[Mention, ...]:
        """Cells that are named by their ids are told as they are now, where that is not what the kernel knows; those
        that are named by their numbers, where the kernel does not know them."""
        read = await super().read_mentions(names)
        found = {mention.name: mention for mention in read}
        known = {name: mention for name, mention in found.items() if not mention.is_saved}
        asked = {name: wanted for name in names if (wanted := cell_named(name)) is not None}
        asked = {name: wanted for name, wanted in asked.items() if isinstance(wanted, str) or name not in known}
        if not asked:
            return read
        try:
            cells = (await self._notebook.ask(ReadCells(cell_ids=tuple(asked.values())))).answer.cells
        except (ToolFailed, NobodyKnows):
            return read
        self._keep(*cells)
        for name, wanted in asked.items():
            meant = [cell for cell in cells if wanted in (cell.cell_id, cell.execution_count)]
            if len(meant) == 1 and not (name in known and known[name].cell == seen_cell(meant[0])):
                text, seen = tell_one(meant[0], MENTION_CHARACTERS)
                found[name] = Mention(name=name, is_cell=True, cell=seen, text=text)
        return tuple(found[name] for name in names if name in found)

    def _is_this(self, path: str | None) -> bool:
        """Whether a path in the notebook's folder is the notebook's own."""
        return path is None or posixpath.normpath(path) == posixpath.basename(self._notebook_path or "")

    async def _read(self, first_cell: int = 0, cells: int = 100) -> Outcome:
        found = await self._notebook.ask(ReadCells(first=first_cell, count=cells))
        answer = found.answer
        if answer.total and first_cell >= answer.total:
            raise ToolFailed(
                f"The notebook has {plural(answer.total, 'cell')}, numbered from 0; there is no cell {first_cell}."
            )
        self._keep(*answer.cells)
        head = f"This notebook ({found.path}), {found.place}: {plural(answer.total, 'cell')}, numbered from 0."
        text, seen = tell(head, answer.cells, answer.total)
        return Outcome("success", text, cells=seen)

    # Changes

    async def _act(self, call: ApprovedCall, arguments: dict[str, Any]) -> Outcome:
        name, before = call.tool_name, None
        if _runs(name, arguments):
            await self._refuse_if_a_cell_waits()
        if name == "insert_cell":
            cell_id = added_cell_id(call.approval_id)
            wanted = {"source": arguments["source"], "cell_type": arguments.get("cell_type", "code")}
            change = CellChange(action="insert", cell_id=cell_id, after=self._after(arguments), **wanted)
        else:
            before, _ = await self._cell(name, arguments, call.base or None)
            cell_id = before.cell_id
            if name == "run_cell":
                return await self._run(call, cell_id, before.source)
            change = self._change_of(name, before, arguments)
        stood_below = await self._stood_below(change, before)
        changed = await self._ask(change, cell_id)
        back = await way_back(self._notebook, change, before, stood_below, changed.answer)
        undo = self._changes.keep(call.approval_id, back) if back is not None else None
        done = {"insert": "Added", "edit": "Edited", "delete": "Deleted", "move": "Moved"}[change.action]
        text = f"{done} cell:{cell_id} of {changed.path} ({changed.place})."
        if change.action == "delete":
            return Outcome("success", text, undo)
        self._keep(*changed.answer.cells)
        for cell in changed.answer.cells:
            if cell.source != change.source:
                text += f" {as_it_is_now(cell, change.source)[0]}"
        seen = tuple(map(seen_cell, changed.answer.cells))
        if not arguments.get("run", False):
            return Outcome("success", text, undo, cells=seen)
        ran = await self._run_changed(call, cell_id, change.source)
        return Outcome(ran.status, f"{text}\n{ran.content}", undo, cells=ran.cells or seen)

    async def _stood_below(self, change: CellChange, before: CellState | None) -> str | None:
        if before is None or change.action not in ("delete", "move"):
            return None
        return await cell_above(self._notebook, before.index)

    def _change_of(self, name: str, cell: CellState, arguments: dict[str, Any]) -> CellChange:
        cell_id, expected = cell.cell_id, cell.source
        match name:
            case "edit_cell":
                return CellChange(action="edit", cell_id=cell_id, expected=expected, source=arguments["source"])
            case "delete_cell":
                return CellChange(action="delete", cell_id=cell_id, expected=expected)
            case _:
                after = self._after(arguments)
                if after == cell_id:
                    raise ToolFailed("A cell can't be moved below itself. Nothing was changed.")
                return CellChange(action="move", cell_id=cell_id, expected=expected, source=expected, after=after)

    async def _refuse_if_a_cell_waits(self) -> None:
        """Raises `ToolFailed` where no other cell can run before this run has ended."""
        try:
            async with asyncio.timeout(WAITS_SECONDS):
                waits = (await self._link().request(AskWhetherCellWaits(run_id=self._run_id))).value
        except (TimeoutError, RequestFailed):
            return  # a kernel that has not loaded the extension: none of its cells waits
        if waits:
            raise ToolFailed(RUNS_HERE)

    async def _run(self, call: ApprovedCall, cell_id: str, source: str, *, changed: bool = False) -> Outcome:
        self._running.add(call.approval_id)
        try:
            ran = await self._ask(RunCell(cell_id=cell_id, expected=source), cell_id, changed=changed)
        except asyncio.CancelledError:
            await self._notebook.interrupt()
            raise
        finally:
            self._running.discard(call.approval_id)
        cell = next(iter(ran.answer.cells), None)
        if cell is None:
            raise NobodyKnows(DELETED.format(cell=cell_id))
        number = f" as [{cell.execution_count}]" if cell.execution_count is not None else ""
        head = f"Ran cell:{cell_id}{number}" + (":" if cell.outputs else ", without outputs.")
        text = "\n".join(part for part in (head, *outputs_of(cell), ran.answer.detail) if part)
        return Outcome("success" if ran.answer.success else "error", text, cells=(seen_cell(cell),))

    async def _run_changed(self, call: ApprovedCall, cell_id: str, source: str) -> Outcome:
        """Run a cell that the same call has changed: whatever becomes of that, the change was made."""
        try:
            return await self._run(call, cell_id, source, changed=True)
        except _Stale as stale:
            return Outcome("error", f"It was not run. {stale}", cells=stale.cells)
        except ToolFailed as error:
            return Outcome("error", f"It was not run. {error}")
        except NobodyKnows as unknown:
            return Outcome("unknown", str(unknown))

    async def _ask(self, request: CellChange | RunCell, cell_id: str, *, changed: bool = False) -> Answered:
        """Raises `ToolFailed` with the cell as it is, if it was changed."""
        found = await self._notebook.ask(request)
        answer = found.answer
        if answer.refusal is None:
            return found
        message = refused(answer.refusal, cell_id, answer.detail, changed=changed)
        if answer.refusal == "changed" and answer.cells and request.expected is not None:
            text, seen = as_it_is_now(answer.cells[0], request.expected)
            raise _Stale(f"{text}\n{message}", seen)
        raise ToolFailed(message)

    # What is there

    async def _cell(self, name: str, arguments: dict[str, Any], seen: str | None) -> tuple[CellState, str]:
        """The cell of a call and its language. Raises `ToolFailed` where it is not one that the model has seen, as it
        has seen it."""
        cell_id: str = arguments["cell_id"].removeprefix("cell:")
        if cell_id == self._cell_id and (name == "delete_cell" or _runs(name, arguments)):
            raise ToolFailed(OWN_CELL.format(cell=cell_id))
        if seen is None:
            raise ToolFailed(NEVER_TOLD.format(cell=cell_id))
        answer = await self._look(name, cell_id)
        cell = answer.cells[0]
        if source_digest(cell.source) != seen:
            text, now = as_it_is_now(cell, self._known.get(seen))
            self._keep(cell)
            raise _Stale(f"{text}\n{refused('changed', cell_id)}", now)
        self._keep(cell)
        if is_locked(name.removesuffix("_cell"), cell.locks):
            raise ToolFailed(refused("locked", cell_id))
        if _runs(name, arguments) and cell.cell_type not in ("code", "markdown"):
            raise ToolFailed(refused("kind", cell_id))
        return cell, answer.language if cell.cell_type == "code" else cell.cell_type

    async def _place(self, arguments: dict[str, Any]) -> tuple[str, str]:
        """Where a cell goes, for its card, and the language of the notebook's code. Raises `ToolFailed` where there is
        no such place."""
        after = self._after(arguments)
        answer = await self._look("insert_cell", after)
        if not after:
            return "At the top of the notebook." if after is None else "At the end of the notebook.", answer.language
        if "after" not in arguments:
            return "Below the prompt's cell.", answer.language
        first = next(iter(answer.cells[0].source.strip().splitlines()), "")
        return f"Below the cell that begins with: {first[:80]}" if first else "Below an empty cell.", answer.language

    async def _look(self, name: str, cell_id: str | None) -> PageAnswer:
        """The cell with this id, if one is named, for a call of this tool. Raises `ToolFailed` where the notebook takes
        no such call, or has no such cell."""
        answer = (await self._notebook.ask(ReadCells(cell_ids=(cell_id,) if cell_id else ()))).answer
        if ("run" if name == "run_cell" else "change") in answer.refuses:
            raise ToolFailed(refused("read_only", ""))
        if cell_id and len(answer.cells) != 1:
            raise ToolFailed(refused("twice" if answer.cells else "gone", cell_id))
        return answer

    def _after(self, arguments: dict[str, Any]) -> str | None:
        """As `CellChange.after`: below the run's own cell where nothing is said, and at the end where it has none."""
        after: str | None = arguments.get("after", self._cell_id or "")
        return after.removeprefix("cell:") if after is not None else None

    def _keep(self, *cells: CellState) -> None:
        for cell in cells:
            self._known[source_digest(cell.source)] = cell.source
        while len(self._known) > KNOWN_SOURCES:
            self._known.popitem(last=False)


def _runs(name: str, arguments: dict[str, Any]) -> bool:
    return name == "run_cell" or (arguments.get("run") is True and arguments.get("cell_type") != "markdown")


def _refuse_prompts(source: str) -> None:
    """A prompt's cell may wait for its run, which waits for this one."""
    if _PROMPT.match(source):
        raise ToolFailed(RUNS_PROMPT)


def _preview(name: str, arguments: dict[str, Any], cell: CellState | None, language: str, facts: list[str]) -> Preview:
    base = source_digest(cell.source) if cell is not None else ""
    if cell is None:
        language = arguments.get("cell_type", "code").replace("code", language)
        return Preview(kind="code", language=language, text=arguments["source"], facts=facts)
    if name in ("edit_cell", "delete_cell"):
        shown = diff(cell.source, arguments.get("source", ""), f"cell:{cell.cell_id}")
        if not shown.text:
            facts = ["The cell has this source already; nothing would change."]
        if shown.text:
            return Preview(
                kind="diff",
                language=language,
                text=shown.text,
                left_out=shown.left_out,
                cell=cell.execution_count,
                base=base,
            )
    return Preview(kind="code", language=language, text=cell.source, facts=facts, cell=cell.execution_count, base=base)
