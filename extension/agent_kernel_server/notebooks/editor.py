"""`ServedNotebook`: a run's notebook, in the page that has it open, or else in its file."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from agent_kernel.errors import ToolFailed
from agent_kernel.protocol.pages import AnyPageRequest, CellChange, PageAnswer, ReadCells, RunCell
from agent_kernel.tools.builtin.cells import cell_states
from agent_kernel.tools.executor import Answered, NobodyKnows
from agent_kernel_server.notebooks.cell_files import CellFiles
from agent_kernel_server.notebooks.open_pages import OpenPages, PageGone
from agent_kernel_server.notebooks.run_cell import Ran

PAGE_SECONDS = 10.0
"""How long a page may take to answer, and to come back after it was reloaded."""
IN_PAGE = "as the page shows it now"
RUN_LOST = (
    "The page that ran the cell {cell} went away. The kernel may have run it to its end, or run it still; its outputs "
    "are not known."
)
CHANGE_LOST = "The page went away before it answered, and nobody can say whether the cell {cell} was changed."
NOT_WRITTEN = "What it has put out is not in the notebook's file."


@dataclass(frozen=True, slots=True)
class ServedNotebook:
    """Implements `agent_kernel.tools.executor.NotebookEditor` for one run."""

    pages: OpenPages
    files: CellFiles
    kernel_id: str
    find_path: Callable[[], Awaitable[str | None]]
    run_in_kernel: Callable[[str, str], Awaitable[Ran]]
    """Runs a cell's source, as the cell of this id."""
    interrupt_kernel: Callable[[], Awaitable[None]]

    async def ask(self, request: AnyPageRequest) -> Answered:
        """Raises `ToolFailed`, `NobodyKnows`."""
        path = await self.find_path()
        found = await self.pages.find_soon(path, self.kernel_id, PAGE_SECONDS)
        if found is None:
            return await self._ask_file(_known(path), request)
        page, notebook = found
        try:
            answer = await page.ask(notebook, request, None if isinstance(request, RunCell) else PAGE_SECONDS)
        except PageGone:
            if isinstance(request, ReadCells):
                return await self.ask(request)
            lost = RUN_LOST if isinstance(request, RunCell) else CHANGE_LOST
            raise NobodyKnows(lost.format(cell=request.cell_id)) from None
        return Answered(answer, IN_PAGE, notebook.path)

    async def interrupt(self) -> None:
        await self.interrupt_kernel()

    async def _ask_file(self, path: str, request: AnyPageRequest) -> Answered:
        match request:
            case ReadCells():
                answer, saved = await self.files.read(path, request)
                return Answered(answer, f"as it was saved at {saved} (no page has it open)", path)
            case CellChange():
                return Answered(await self.files.change(path, request), "in its file, as no page has it open", path)
            case RunCell():
                return Answered(await self._run(path, request), "in its file, as no page has it open", path)

    async def _run(self, path: str, request: RunCell) -> PageAnswer:
        """Run a cell in the kernel, as the page would, and write its outputs into the file."""
        answer, _ = await self.files.read(path, ReadCells(cell_ids=(request.cell_id,)))
        if len(answer.cells) != 1 or answer.cells[0].source != request.expected:
            refusal = "changed" if len(answer.cells) == 1 else "twice" if answer.cells else "gone"
            return answer.model_copy(update={"refusal": refusal})
        if answer.cells[0].cell_type != "code":
            return answer if answer.cells[0].cell_type == "markdown" else answer.model_copy(update={"refusal": "kind"})
        ran = await self.run_in_kernel(request.expected, request.cell_id)
        left = ""
        try:
            await self.files.put_outputs(path, request.cell_id, ran.outputs, ran.count)
        except ToolFailed as reason:
            left = f"{NOT_WRITTEN} {reason}"
        now = {"id": request.cell_id, "cell_type": "code", "source": request.expected, "outputs": ran.outputs}
        cells = cell_states([now | {"execution_count": ran.count}], answer.cells[0].index)
        return answer.model_copy(update={"cells": tuple(cells), "success": ran.success, "detail": left})


def _known(path: str | None) -> str:
    if path is None:
        raise ToolFailed("It is not known which notebook this run is in.")
    return path
