"""`RecordKeeper`: what a saved notebook has in place of a run's widget.

A saved widget shows "model not found" wherever its kernel is gone. So a save hook puts the present state of an open run
there, with a mark that names the run, and of one that has ended its static record and its results. Pages that have the
JupyterLab extension are asked to do the same in their documents (`Documents`); this is for other pages, and for runs
that go on or end without a page.

Only the id of a widget or the mark of a run or a result is read from a notebook, and looked up among the runs of this
server.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from logging import Logger
from typing import Any

from jupyter_core.utils import ensure_async
from tornado.web import HTTPError

from agent_kernel.errors import AgentKernelError
from agent_kernel.protocol.run_results import RunResult
from agent_kernel.protocol.vocabulary import OPEN_RUN_MARK, RESULT_MARK, RUN_VIEW
from agent_kernel.record import Result, place_record, render_record
from agent_kernel.record.so_far import render_so_far
from agent_kernel.runtime.conversation import Conversation
from agent_kernel.runtime.settings import RunSpec
from agent_kernel.tools.builtin.cells import text_of
from agent_kernel_server.notebooks.notebook_paths import NotebookPaths, renamed

WIDGET_MIME = "application/vnd.jupyter.widget-view+json"
KEPT_RECORDS = 200
"""Beyond it the oldest records are forgotten."""
Output = dict[str, Any]


@dataclass(slots=True)
class OpenRun:
    """One open run, and its state as it was last rendered."""

    spec: RunSpec
    conversation: Conversation
    path: str | None
    """The notebook that it belongs to, if that is known."""
    bundle: dict[str, Any] | None = None
    waits: bool = False
    """Whether it waits for a person."""
    told: dict[str, Any] | None = None
    """How it stood when its documents were last told, if it waited then."""
    cleared: bool = False
    """Whether a page that has shown it shows it no longer: its cell was cleared, or its notebook closed."""
    _seen: int | None = None

    async def refresh(self) -> None:
        """Render the run's present state, unless nothing has happened since the last time."""
        last = self.conversation.last_seq
        if last == self._seen:
            return
        try:
            progress = await self.conversation.progress(self.spec.run_id)
        except AgentKernelError:
            return  # deleted, or the log can't be read now: the last state stays
        if progress.run.ended_at is None:
            self.bundle = await asyncio.to_thread(render_so_far, progress, below_prompt=self.spec.prompt_in_cell)
            self._seen, self.waits = last, progress.waits


@dataclass(slots=True)
class Record:
    """The outputs of a run that has ended."""

    run_id: str
    widget_model_id: str
    path: str | None
    """The notebook that it belongs to, if that is known."""
    prompt: str
    keeps_cards: bool
    """Whether pages go on showing cards, because the run can be tried again."""
    beside: dict[str, str]
    """The record for the run's cell, where the results follow as outputs of their own."""
    results: tuple[Result, ...]
    alone: dict[str, str]
    """The record for copies of the cell, whose source has the prompt: it contains the results."""
    elsewhere: dict[str, str]
    """The record for other cells: it contains the results and the prompt."""

    def belongs(self, path: str | None) -> bool:
        return self.path in (None, path)


class RecordKeeper:
    """Knows the runs of this server's notebooks that are open, and keeps the records of those that have ended."""

    def __init__(self, kernel_manager: Any, session_manager: Any, contents: Callable[[], Any], log: Logger) -> None:
        self._kernels = kernel_manager
        self.paths = NotebookPaths(session_manager, contents)
        self._contents = contents
        self._log = log
        self._open: dict[str, OpenRun] = {}
        self._records: OrderedDict[str, Record] = OrderedDict()
        self._placing = asyncio.Lock()

    def start(self) -> None:
        self._contents().register_pre_save_hook(self.pre_save)

    def close(self) -> None:
        """Make the pre-save hook do nothing: Jupyter can't unregister one."""
        self._open.clear()
        self._records.clear()

    def on_start(self, spec: RunSpec, conversation: Conversation) -> None:
        """A run is open: a new one, one that was recovered after a restart, or one that is tried again."""
        if spec.widget_model_id is not None:
            self._records.pop(spec.run_id, None)
            self._open[spec.run_id] = OpenRun(spec, conversation, spec.notebook_path)

    def find_open(self, run_id: str) -> OpenRun | None:
        return self._open.get(run_id)

    async def keep(self, spec: RunSpec, result: RunResult, path: str | None) -> None:
        """Keep the record of a run that has ended, for the notebook at `path`. Runs without a widget have none."""
        if spec.widget_model_id is not None:
            record = await asyncio.to_thread(_render, spec.widget_model_id, spec.prompt_in_cell, result, path)
            self._records[spec.run_id] = record
            if len(self._records) > KEPT_RECORDS:
                self._records.popitem(last=False)
        self._open.pop(spec.run_id, None)

    def ended(self, run_id: str, path: str | None) -> Record | None:
        """The record of a run that has ended, if it belongs to the notebook at `path`."""
        record = self._records.get(run_id)
        return record if record is not None and record.belongs(path) else None

    def note_cleared(self, run_id: str, *, cleared: bool) -> None:
        """A page has removed the output of an open run from its notebook, or shows it (again)."""
        if run_id in self._open:
            self._open[run_id].cleared = cleared

    def pre_save(self, model: object, path: str = "", **_: Any) -> None:
        """A pre-save hook of the contents manager: called before each save by any page or client."""
        if (self._open or self._records) and isinstance(model, dict) and model.get("type") == "notebook":
            self._complete(model.get("content"), path.strip("/"))

    def _complete(self, notebook: object, path: str) -> bool:
        """Put the state or the record of each run in place of its widget. Whether anything was changed."""
        cells = list(_cells_of(notebook))
        placed = {mark["run"] for _, outputs in cells for output in outputs if (mark := _result_mark(output))}
        changed = False
        for source, outputs in cells:
            for output in [one for one in outputs if isinstance(one, dict)]:
                run_id = self._run_in(output)
                run = self._open.get(run_id)
                if run is not None and (_widget_in(output) is not None or run.path in (None, path)):
                    _put_state(output, run)
                elif (record := self.ended(run_id, path)) is not None:
                    _put_record(source, outputs, output, record, with_results=run_id not in placed)
                    placed.add(run_id)
                else:
                    continue
                changed = True
        return changed

    def _run_in(self, output: Output) -> str:
        """The run that an output shows by its widget or its mark; "" for none that is known."""
        if not isinstance(output.get("data"), dict):
            return ""
        mark = _metadata_of(output, OPEN_RUN_MARK)
        widget = _widget_in(output)
        if widget is None:
            return mark if isinstance(mark, str) else ""
        opened = [run_id for run_id, run in self._open.items() if run.spec.widget_model_id == widget]
        ended = [run_id for run_id, record in self._records.items() if record.widget_model_id == widget]
        return next(iter([*opened, *ended]), "")

    async def place(self, run_id: str, page_is_open: Callable[[], Awaitable[bool]]) -> bool:
        """Write a run's record into its notebook's file, unless a page is open: then its next save does that.

        Whether the file was written."""
        record = self._records.get(run_id)
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
        model = await ensure_async(self._contents().get(path, type="notebook", content=True))
        if not self._complete(model["content"], path):
            return False
        now = await ensure_async(self._contents().get(path, type="notebook", content=False))
        if now["last_modified"] != model["last_modified"] or await page_is_open():
            return False  # it was opened or saved meanwhile; the page's next save runs the hook
        await ensure_async(self._contents().save({"type": "notebook", "content": model["content"]}, path))
        return True

    def on_rename(self, old: str, new: str) -> None:
        """Runs and records follow their notebook."""
        kept: list[OpenRun | Record] = [*self._open.values(), *self._records.values()]
        for one in kept:
            if one.path is not None:
                one.path = renamed(one.path, old, new)


def _render(widget_model_id: str, below_prompt: bool, result: RunResult, path: str | None) -> Record:
    """Called in a thread."""
    parts = (result.run, result.messages, result.tool_calls)
    placed = place_record(*parts, below_prompt=below_prompt)
    alone, elsewhere = render_record(*parts, below_prompt=True), render_record(*parts)
    failed = result.run.error is not None and result.run.error.code == "LLM_ERROR"
    return Record(
        result.run.run_id,
        *(widget_model_id, path, result.run.prompt, failed),
        *(placed.record, placed.results, alone, elsewhere),
    )


def marked(bundle: Mapping[str, Any], run_id: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The data and the metadata of an output that names a run, whose cards the JupyterLab extension shows in its
    place."""
    return {**bundle, RUN_VIEW: {"run_id": run_id}}, {OPEN_RUN_MARK: run_id}


def _put_state(output: Output, run: OpenRun) -> None:
    """Replace a widget by the run's state, or by the text beside the widget if the state was not rendered yet."""
    static = {kind: shown for kind, shown in (run.bundle or output["data"]).items() if kind != WIDGET_MIME}
    output["data"], output["metadata"] = marked(static, run.spec.run_id)


def _put_record(source: str, outputs: list[Any], output: Output, record: Record, *, with_results: bool) -> None:
    """Replace an output by the record. The results of a run appear once, where the run is shown first."""
    if record.keeps_cards:
        output["data"], output["metadata"] = marked(record.alone, record.run_id)
        return
    alone = record.alone if record.prompt.strip() in source else record.elsewhere
    output["data"], output["metadata"] = dict(record.beside if with_results else alone), {}
    if with_results:
        after = next(number for number, one in enumerate(outputs) if one is output) + 1
        outputs[after:after] = [deepcopy(result.output) for result in record.results]


def _cells_of(notebook: object) -> Iterator[tuple[str, list[Any]]]:
    """The sources and outputs of the cells that have outputs. A notebook is never trusted: any part of it may be
    missing or malformed."""
    cells = notebook.get("cells") if isinstance(notebook, dict) else None
    for cell in cells if isinstance(cells, list) else ():
        outputs = cell.get("outputs") if isinstance(cell, dict) else None
        if isinstance(outputs, list):
            yield text_of(cell.get("source")), outputs


def _widget_in(output: Output) -> str | None:
    """The model id of the widget that an output shows."""
    data = output.get("data")
    view = data.get(WIDGET_MIME) if isinstance(data, dict) else None
    model_id = view.get("model_id") if isinstance(view, dict) else None
    return model_id if isinstance(model_id, str) else None


def _metadata_of(output: Any, name: str) -> Any:
    metadata = output.get("metadata") if isinstance(output, dict) else None
    return metadata.get(name) if isinstance(metadata, dict) else None


def _result_mark(output: Any) -> dict[str, Any] | None:
    """The mark of an output that is a run's result."""
    mark = _metadata_of(output, RESULT_MARK)
    return mark if isinstance(mark, dict) and isinstance(mark.get("run"), str) else None
