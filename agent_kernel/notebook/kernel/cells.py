"""The notebook's cells, as far as the front end names them: one that is run again or deleted ends its earlier runs.

JupyterLab and Notebook 7 name the cell in each request to run it, and the cells that were deleted since the last one;
VS Code names the cell. Where nothing is named, nothing is known, and nothing ends.
"""

import logging
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from IPython.core.interactiveshell import InteractiveShell

from agent_kernel.notebook.kernel.cell_requests import CellRequest, read_deleted, read_request, watch_requests
from agent_kernel.notebook.kernel.environment import kernel_of
from agent_kernel.protocol.kernel import MOST_CELLS_BEFORE

if TYPE_CHECKING:
    from agent_kernel.notebook.run_state import RunState

_log = logging.getLogger(__name__)
_NOTED_PAGES = 20


def request_of(shell: InteractiveShell) -> CellRequest | None:
    """The request that is being carried out on this thread, where it names its cell."""
    kernel = kernel_of(shell)
    if kernel is None:
        return None
    parent = kernel.get_parent("shell")
    return read_request(parent.get("header"), parent.get("metadata"))


class Cells:
    """One per kernel process."""

    def __init__(self, shell: InteractiveShell, open_runs: "Callable[[], Sequence[RunState]]") -> None:
        self._shell = shell
        self._open_runs = open_runs
        self._queued: dict[str, list[CellRequest]] = {}
        """By cell, the requests that have come and were not carried out yet, as far as they are heard of."""
        self._ran: OrderedDict[str, tuple[str, ...]] = OrderedDict()
        """By page, the cells that it has run, the last first."""
        kernel = kernel_of(shell)
        if kernel is not None:
            shell.events.register("pre_run_cell", self._cell_begins)
            watch_requests(kernel, self.asked_for)

    def begun(self, run: "RunState") -> None:
        """A run was started. Its cell may have been asked for again before that."""
        if run.cell is not None and self._queued.get(run.cell.cell_id):
            run.stop("cell_run_again")

    def asked_for(self, request: CellRequest) -> None:
        """A request to run a cell has come, and waits. What an earlier one started there ends. For any thread."""
        self._queued.setdefault(request.cell_id, []).append(request)
        self.deleted(request.deleted)
        self._end_earlier(request)

    def _end_earlier(self, request: CellRequest) -> None:
        for run in self._of([request.cell_id]):
            if run.cell != request:
                run.stop("cell_run_again")

    def _carried_out(self, request: CellRequest) -> None:
        """It waits no more, nor do those before it: the kernel has left them out, as it does after an error."""
        queued = self._queued.get(request.cell_id, [])
        later = queued[queued.index(request) + 1 :] if request in queued else []
        if later:
            self._queued[request.cell_id] = later
        else:
            self._queued.pop(request.cell_id, None)

    def before(self, request: CellRequest | None) -> tuple[str, ...]:
        """Other cells of the page that made this request: of the same notebook. For any thread."""
        ran = self._ran.get(request.page, ()) if request is not None else ()
        return tuple(cell_id for cell_id in ran if request is None or cell_id != request.cell_id)

    def _note(self, request: CellRequest) -> None:
        ran = self._ran.pop(request.page, ())
        others = (cell_id for cell_id in ran if cell_id != request.cell_id)
        self._ran[request.page] = (request.cell_id, *others)[:MOST_CELLS_BEFORE]
        while len(self._ran) > _NOTED_PAGES:
            self._ran.popitem(last=False)

    def deleted(self, cell_ids: Iterable[str]) -> None:
        for run in self._of(cell_ids):
            run.stop("cell_deleted")

    def _of(self, cell_ids: Iterable[str]) -> "list[RunState]":
        wanted = frozenset(cell_ids)
        return [run for run in self._open_runs() if run.cell is not None and run.cell.cell_id in wanted]

    def _cell_begins(self, _info: Any) -> None:
        """A hook of IPython's: what it raised would stand above the output of the user's cell."""
        try:
            message = kernel_of(self._shell).get_parent("shell")  # type: ignore[union-attr]
            request = read_request(message.get("header"), message.get("metadata"))
            self.deleted(read_deleted(message.get("metadata")) - {request.cell_id if request is not None else ""})
            if request is not None:
                self._note(request)
                self._carried_out(request)
                self._end_earlier(request)
        except Exception:  # noqa: BLE001 -- see above
            _log.warning("The runs of a cell that was run again could not be ended.", exc_info=True)
