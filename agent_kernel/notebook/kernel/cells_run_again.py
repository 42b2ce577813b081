"""Ends the runs of cells that are run again or deleted, as far as the front end identifies cells.

JupyterLab and Notebook 7 name the cell in each request to run it, and the cells that were deleted since the last one;
VS Code names the cell. Where a server runs cells (jupyter-server-documents), our JupyterLab extension says before which
cell a source is of. Where no cell is named, no run is ended.
"""

import logging
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from IPython.core.interactiveshell import InteractiveShell

from agent_kernel.notebook.kernel.cell_requests import CellRequest, read_deleted, read_request, watch_requests
from agent_kernel.notebook.kernel.environment import kernel_of, message_of
from agent_kernel.notebook.kernel.run_state import RunState
from agent_kernel.protocol.kernel import MOST_CELLS_BEFORE

_log = logging.getLogger(__name__)
_NOTED_PAGES = 20
_NAMED_CELLS = 20


class Cells:
    """One per kernel process."""

    def __init__(self, shell: InteractiveShell, open_runs: Callable[[], Sequence[RunState]]) -> None:
        self._shell = shell
        self._open_runs = open_runs
        self._queued: dict[str, list[CellRequest]] = {}
        """By cell, the requests that have come and were not carried out yet, as far as they are known."""
        self._ran: OrderedDict[str, tuple[str, ...]] = OrderedDict()
        """By page, the cells that it has run, the latest first."""
        self._named: OrderedDict[str, str] = OrderedDict()
        """By source, the cells that a page has named before they were run."""
        kernel = kernel_of(shell)
        if kernel is not None:
            shell.events.register("pre_run_cell", self._on_cell_start)
            watch_requests(kernel, self.on_request)

    def name(self, cell_id: str, source: str) -> None:
        """A page is about to have this cell run, by a request that may not name it."""
        self._named.pop(source, None)
        self._named[source] = cell_id
        while len(self._named) > _NAMED_CELLS:
            self._named.popitem(last=False)

    def current(self) -> CellRequest | None:
        """The request that this thread is carrying out, if its cell is known."""
        return self._read(message_of(self._shell))

    def _read(self, message: Mapping[str, Any]) -> CellRequest | None:
        content = message.get("content")
        source = content.get("code") if isinstance(content, dict) else None
        named = self._named.get(source) if isinstance(source, str) else None
        metadata = message.get("metadata") or {}
        if named is not None and isinstance(metadata, dict):
            metadata = {"cellId": named, **metadata}
        return read_request(message.get("header"), metadata)

    def on_run_started(self, run: RunState) -> None:
        """Cancel the run if there already is another request to run its cell."""
        if run.cell is not None and self._queued.get(run.cell.cell_id):
            run.cancel("cell_run_again")

    def on_request(self, request: CellRequest) -> None:
        """A request to run a cell has come, and is queued: end the runs of earlier ones. For any thread."""
        self._queued.setdefault(request.cell_id, []).append(request)
        self._on_deleted(request.deleted)
        self._end_earlier(request)

    def before(self, request: CellRequest | None) -> tuple[str, ...]:
        """The ids of the other cells that the page of this request has run, the latest first: cells of the same
        notebook."""
        ran = self._ran.get(request.page, ()) if request is not None else ()
        return tuple(cell_id for cell_id in ran if request is None or cell_id != request.cell_id)

    def _on_cell_start(self, _info: Any) -> None:
        """A hook of IPython's. An exception here would be printed above the output of the user's cell."""
        try:
            message = message_of(self._shell)
            request = self._read(message)
            self._on_deleted(read_deleted(message.get("metadata")) - {request.cell_id if request is not None else ""})
            if request is not None:
                self._note(request)
                self._dequeue(request)
                self._end_earlier(request)
        except Exception:  # noqa: BLE001 -- see above
            _log.warning("The runs of a cell that was run again could not be ended.", exc_info=True)

    def _note(self, request: CellRequest) -> None:
        ran = self._ran.pop(request.page, ())
        others = (cell_id for cell_id in ran if cell_id != request.cell_id)
        self._ran[request.page] = (request.cell_id, *others)[:MOST_CELLS_BEFORE]
        while len(self._ran) > _NOTED_PAGES:
            self._ran.popitem(last=False)

    def _dequeue(self, request: CellRequest) -> None:
        """The request is no longer queued, nor are those before it: the kernel has aborted them, as it does after an
        error."""
        queued = self._queued.get(request.cell_id, [])
        later = queued[queued.index(request) + 1 :] if request in queued else []
        if later:
            self._queued[request.cell_id] = later
        else:
            self._queued.pop(request.cell_id, None)

    def _end_earlier(self, request: CellRequest) -> None:
        for run in self._runs_of([request.cell_id]):
            if run.cell != request:
                run.cancel("cell_run_again")

    def _on_deleted(self, cell_ids: Iterable[str]) -> None:
        for run in self._runs_of(cell_ids):
            run.cancel("cell_deleted")

    def _runs_of(self, cell_ids: Iterable[str]) -> list[RunState]:
        wanted = frozenset(cell_ids)
        return [run for run in self._open_runs() if run.cell is not None and run.cell.cell_id in wanted]
