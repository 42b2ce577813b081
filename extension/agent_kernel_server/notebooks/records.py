"""`RecordKeeper`: replaces a run's widget in the saved notebook by the run's static record and its results.

A saved widget shows nothing once its kernel is gone. In an open page the kernel replaces it; this is for notebooks that
are saved before that, and for runs that end without a page. A run that is tried again gets a new record in place of the
first one, and new results in place of the first ones. Only the model id of a widget, a record, or the mark of a result
is read from a notebook, and looked up among those of the runs that ended in this server.
"""

import asyncio
import html
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from logging import Logger
from typing import Any, Literal

from jupyter_core.utils import ensure_async
from tornado.web import HTTPError

from agent_kernel.protocol.runs import RunResult
from agent_kernel.protocol.vocabulary import RESULT_MARK
from agent_kernel.record import Result, place_record, render_record
from agent_kernel.runtime.settings import RunSpec
from agent_kernel_server.notebooks.open_runs import OpenRuns
from agent_kernel_server.notebooks.outputs import (
    Cell,
    Notebook,
    cells_of,
    displays_of,
    html_of,
    metadata_of,
    notebook_in,
    widget_in,
)
from agent_kernel_server.notebooks.paths import NotebookPaths, renamed

CONTENTS_ACTIONS = "https://events.jupyter.org/jupyter_server/contents_service/v1"
RECORD_ATTRIBUTE = "data-agent-record"
RECORD_BEGINS = 1_000
"""A record has the attribute within so many characters of its HTML."""
KEPT_RECORDS = 500
KEPT_BYTES = 256 * 1024 * 1024
"""Most memory for the results of all kept records, in bytes. Beyond it the oldest records lose their results."""


@dataclass(frozen=True, slots=True)
class Rendered:
    """The outputs of a run that has ended."""

    beside: dict[str, str]
    """The record for the run's cell, where the results follow as outputs of their own."""
    results: tuple["Result", ...]
    alone: dict[str, str]
    """The record for copies of the cell, whose source has the prompt: it contains the results."""
    elsewhere: dict[str, str]
    """The record for other cells: it contains the results and the prompt."""
    prompt: str

    def has(self, text: str) -> bool:
        return any(text == bundle["text/html"] for bundle in (self.beside, self.alone, self.elsewhere))


@dataclass(slots=True)
class Record:
    """The record of a run that has ended."""

    path: str | None
    """The notebook that it belongs to, if that is known."""
    result: RunResult | None
    """The result of the run, until it is rendered."""
    below_prompt: bool = False
    """Whether the source of the run's cell has the prompt."""
    keeps_cards: bool = False
    """Whether pages go on showing cards, because the run can be tried again."""
    _rendered: Rendered | None = None
    outdated: Rendered | None = None
    """The outputs from before the run was tried again."""
    _rendering: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def rendered(self) -> Rendered:
        """The outputs. They are rendered now if `render` is not done yet."""
        if self._rendered is None:
            assert self.result is not None
            self._rendered, self.result = _render(self.result, self.below_prompt), None
        return self._rendered

    async def render(self) -> None:
        """Render the outputs in a thread, once for all callers."""
        async with self._rendering:
            if self.result is not None:
                rendered = await asyncio.to_thread(_render, self.result, self.below_prompt)
                self._rendered, self.result = self._rendered or rendered, None

    def drop_results(self) -> None:
        """Free the results' memory. The record then contains copies of them."""
        alone = self.rendered.alone if self.below_prompt else self.rendered.elsewhere
        self._rendered, self.outdated = replace(self.rendered, beside=alone, results=()), None

    @property
    def is_rendered(self) -> bool:
        return self._rendered is not None

    @property
    def size(self) -> int:
        """The results' size in bytes."""
        kept = (self._rendered, self.outdated)
        return sum(result.size for rendered in kept if rendered is not None for result in rendered.results)


@dataclass(frozen=True, slots=True)
class RunOutput:
    """An output of a notebook that shows a run."""

    cell: Cell
    output: dict[str, Any]
    record: Record
    shows: Literal["widget", "outdated", "beside", "alone"]


class RecordKeeper:
    """Keeps the records of the runs that ended in this server, and puts them into notebooks."""

    def __init__(self, kernel_manager: Any, session_manager: Any, contents_manager: Any, log: Logger) -> None:
        self._kernels = kernel_manager
        self.paths = NotebookPaths(session_manager, contents_manager)
        self._contents = contents_manager
        self._log = log
        self._records: OrderedDict[str, Record] = OrderedDict()
        self._cleared: OrderedDict[str, None] = OrderedDict()
        self._placing = asyncio.Lock()
        self._open = True
        self.open_runs = OpenRuns(self.paths, self.has_record)
        contents_manager.register_pre_save_hook(self.open_runs.pre_save)
        contents_manager.register_pre_save_hook(self.pre_save)

    def close(self) -> None:
        """Make the pre-save hook do nothing: Jupyter can't unregister one."""
        self._open = False
        self._records.clear()

    def kept(self) -> int:
        """The number of kept records."""
        return len(self._records)

    def has_record(self, widget_model_id: str, path: str) -> bool:
        """Whether a save of the notebook at this path replaces this widget by a record."""
        record = self._records.get(widget_model_id)
        return record is not None and record.path in (None, path)

    def ended(self, run_id: str, path: str | None) -> Record | None:
        """The record of a run that has ended, if it belongs to the notebook at `path`."""
        record = self._records.get(self.open_runs.widget_of_ended(run_id) or "")
        return record if record is not None and record.is_rendered and record.path in (None, path) else None

    def note_cleared(self, run_id: str, *, cleared: bool) -> None:
        """A page has removed the output of a run from its notebook, or shows it (again)."""
        self._cleared.pop(run_id, None)
        if cleared:
            self._cleared[run_id] = None
            if len(self._cleared) > KEPT_RECORDS:
                self._cleared.popitem(last=False)

    def is_cleared(self, run_id: str) -> bool:
        """Whether a run that a page has shown is shown no longer: its cell was cleared, or its notebook closed."""
        return run_id in self._cleared

    async def notebook_path(
        self, kernel_id: str, cells: Sequence[str | None] = (), known: str | None = None
    ) -> str | None:
        """The notebook of a kernel, or of cells that were run in it: see `NotebookPaths.notebook_of`."""
        return await self.paths.notebook_of(kernel_id, cells, known)

    async def keep(self, spec: RunSpec, result: RunResult, path: str | None) -> None:
        """Keep the record of a run that has ended, for the notebook at `path`. Runs without a widget have none."""
        widget_model_id = spec.widget_model_id
        if widget_model_id is None:
            return
        before = self._records.get(widget_model_id)
        if before is not None:
            await before.render()  # it is already, unless the run was tried again at once
        outdated = before.rendered if before is not None else None
        failed = result.run.error is not None and result.run.error.code == "LLM_ERROR"
        record = Record(path, result, spec.prompt_in_cell, keeps_cards=failed, outdated=outdated)
        # Kept before it is rendered: a save right after the answer gets it, and waits for the rendering.
        self._records[widget_model_id] = record
        while len(self._records) > KEPT_RECORDS:
            self._records.popitem(last=False)
        await record.render()
        self._limit_memory()

    def _limit_memory(self) -> None:
        rendered = [record for record in self._records.values() if record.is_rendered]
        size = sum(record.size for record in rendered)
        for record in rendered[:-1]:
            if size <= KEPT_BYTES:
                return
            size -= record.size
            record.drop_results()

    async def prepare(self, model: object, path: str) -> None:
        """Before a save: render the records that it may need and that are not rendered yet, off the event loop."""
        if notebook_in(model) is not None:
            for record in list(self._records.values()):
                if not record.is_rendered and _belongs(record, path.strip("/")):
                    await record.render()

    def pre_save(self, model: dict[str, Any], path: str = "", **_: Any) -> None:
        """A pre-save hook of the contents manager: called before each save by any page or client."""
        notebook = notebook_in(model)
        if self._open and notebook is not None:
            self._complete(notebook, path.strip("/"))

    def _complete(self, notebook: Notebook, path: str) -> bool:
        """Put records and results into a notebook. Whether anything was changed."""
        cells = list(cells_of(notebook))
        shown = [output for cell in cells for output in self._outputs_of_runs(cell, path)]
        # The results of a run appear once: where its record has them already, or else where the run is shown first.
        placed = {id(output.record) for output in shown if output.shows == "beside"}
        changed = False
        for output in shown:
            if output.shows == "beside":
                changed |= _complete_results(output)
            elif output.shows != "alone":
                _place_record(output, with_results=id(output.record) not in placed)
                placed.add(id(output.record))
                changed = True
        return self._clear_up([cell.outputs for cell in cells], path) or changed

    def _outputs_of_runs(self, cell: Cell, path: str) -> Iterator[RunOutput]:
        for output in displays_of(cell):
            widget_model_id = widget_in(output)
            if widget_model_id is not None:
                record = self._records.get(widget_model_id)
                if record is not None and _belongs(record, path):
                    yield RunOutput(cell, output, record, "widget")
            elif (shown := self._find_record(cell, output, html_of(output), path)) is not None:
                yield shown

    def _find_record(self, cell: Cell, output: dict[str, Any], text: str, path: str) -> RunOutput | None:
        if RECORD_ATTRIBUTE not in text[:RECORD_BEGINS]:
            return None
        # Newest first: runs of the demo have equal records.
        for record in reversed(self._records.values()):
            if not _belongs(record, path):
                continue
            if record.is_rendered and record.rendered.has(text):
                shows: Literal["beside", "alone"] = "beside" if record.rendered.beside["text/html"] == text else "alone"
                return RunOutput(cell, output, record, shows)
            if record.outdated is not None and record.outdated.has(text):
                return RunOutput(cell, output, record, "outdated")
        return None

    def _clear_up(self, cells: Iterable[list[Any]], path: str) -> bool:
        """Remove the results of runs that are not shown in the same cell: a page adds results also to a cell that was
        cleared meanwhile."""
        marked = [outputs for outputs in cells if any(_mark(output) is not None for output in outputs)]
        if not marked:
            return False
        ended = [record for record in self._records.values() if record.is_rendered and _belongs(record, path)]
        ours = {mark for record in ended for mark in _marks(record)}
        changed = False
        for outputs in marked:
            shown = "".join(html_of(output) for output in outputs if _mark(output) is None)
            kept = [
                output
                for output in outputs
                if (mark := _mark(output)) is None
                or mark not in ours
                or f'{RECORD_ATTRIBUTE}="{html.escape(mark[0])}"' in shown
            ]
            changed |= len(kept) < len(outputs)
            outputs[:] = kept
        return changed

    async def place(self, widget_model_id: str | None, page_is_open: Callable[[], Awaitable[bool]]) -> bool:
        """Write a run's record into its notebook's file, unless a page is open: then its next save does that.

        Whether the file was written."""
        record = self._records.get(widget_model_id) if widget_model_id is not None else None
        if record is None or record.path is None or await page_is_open():
            return False
        async with self._placing:
            try:
                return await self._rewrite(record.path, page_is_open)
            except HTTPError as error:
                self._log.debug("The record was not placed in %s: %s", record.path, error)
                return False

    async def page_is_open(self, kernel_id: str, own: int = 0) -> bool:
        """Whether a page is connected to this kernel, besides `own` connections of this server's."""
        if kernel_id not in self._kernels:
            return True  # that can't be known any more; the next save runs the hook
        model = await ensure_async(self._kernels.kernel_model(kernel_id))
        return model is None or model["connections"] > own

    async def _rewrite(self, path: str, page_is_open: Callable[[], Awaitable[bool]]) -> bool:
        """Read, replace, save. Raises `HTTPError` 404 if the file is gone: a new one is never created."""
        model = await ensure_async(self._contents.get(path, type="notebook", content=True))
        self.open_runs.put_ended(model["content"], path)
        if not self._complete(model["content"], path):
            return False
        now = await ensure_async(self._contents.get(path, type="notebook", content=False))
        if now["last_modified"] != model["last_modified"] or await page_is_open():
            return False  # it was opened or saved meanwhile; the page's next save runs the hook
        await ensure_async(self._contents.save({"type": "notebook", "content": model["content"]}, path))
        return True

    def on_rename(self, old: str, new: str) -> None:
        """A record follows its notebook."""
        for record in self._records.values():
            if record.path is not None:
                record.path = renamed(record.path, old, new)


def _complete_results(shown: RunOutput) -> bool:
    """Insert the results after a record that has none of them, because its page did not show them."""
    results = shown.record.rendered.results
    if not results or any(_mark(output) in _marks(shown.record) for output in shown.cell.outputs):
        return False
    _insert_after(shown, results)
    return True


def _place_record(shown: RunOutput, *, with_results: bool) -> None:
    """Replace the output by the record, and any earlier results by the new ones."""
    rendered = shown.record.rendered
    outputs = shown.cell.outputs
    outputs[:] = [output for output in outputs if _mark(output) not in _marks(shown.record)]
    alone = rendered.alone if rendered.prompt.strip() in shown.cell.source else rendered.elsewhere
    shown.output["data"], shown.output["metadata"] = dict(rendered.beside if with_results else alone), {}
    if with_results:
        _insert_after(shown, rendered.results)


def _insert_after(shown: RunOutput, results: Iterable["Result"]) -> None:
    outputs = shown.cell.outputs
    after = next(number for number, output in enumerate(outputs) if output is shown.output) + 1
    outputs[after:after] = [deepcopy(result.output) for result in results]


def _marks(record: Record) -> set[tuple[str, int]]:
    rendered = [record.rendered] if record.outdated is None else [record.rendered, record.outdated]
    return {mark for one in rendered for result in one.results if (mark := _mark(result.output)) is not None}


def _mark(output: Any) -> tuple[str, int] | None:
    """The run's id and the call's number in an output that is marked as a result."""
    mark = metadata_of(output, RESULT_MARK)
    if not isinstance(mark, dict):
        return None
    run, call = mark.get("run"), mark.get("call")
    return (run, call) if isinstance(run, str) and isinstance(call, int) else None


def _belongs(record: Record, path: str) -> bool:
    return record.path is None or record.path == path


def _render(result: RunResult, below_prompt: bool) -> Rendered:
    """Called in a thread."""
    parts = (result.run, result.messages, result.tool_calls)
    placed = place_record(*parts, below_prompt=below_prompt)
    alone, elsewhere = render_record(*parts, below_prompt=True), render_record(*parts)
    return Rendered(placed.record, placed.results, alone, elsewhere, result.run.prompt)
