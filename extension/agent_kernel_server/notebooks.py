"""RecordKeeper puts a run's static record where its widget was in the saved notebook, and the run's results after it.

A saved widget shows nothing once its kernel has gone. The kernel replaces it in an open page; this is for what is
saved while that has not happened, and for runs that end with no page open at all. A run that is tried again has its
new record put where the first one stands, and its new results in place of the first ones. A notebook is never trusted:
all that is read from it is the id of a widget's model, a record, or the mark of a result, which are looked up among
those of the runs that ended in this server.
"""

import asyncio
import html
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from logging import Logger
from typing import TYPE_CHECKING, Any, Literal

from jupyter_core.utils import ensure_async
from tornado.web import HTTPError

from agent_kernel.protocol.vocabulary import RESULT_MARK
from agent_kernel.runtime.settings import RunSpec
from agent_kernel.runtime.state.run import RunResult
from agent_kernel_server.open_runs import OpenRuns
from agent_kernel_server.places import NotebookPlaces

if TYPE_CHECKING:
    from agent_kernel.record import Result

WIDGET_MIME = "application/vnd.jupyter.widget-view+json"
CONTENTS_ACTIONS = "https://events.jupyter.org/jupyter_server/contents_service/v1"
RECORD_ATTRIBUTE = "data-agent-record"
RECORD_BEGINS = 1_000
"""Characters of an output's HTML in which the attribute stands, where it is a record."""
KEPT_RECORDS = 500
KEPT_BYTES = 256 * 1024 * 1024
"""What the results of all kept records may take in memory. Beyond it the oldest records stand alone."""


@dataclass(frozen=True, slots=True)
class Made:
    """What is shown of a run that has ended."""

    beside: dict[str, str]
    """Its record, where its results stand beside it."""
    results: tuple["Result", ...]
    alone: dict[str, str]
    """Its record for copies of its cell, with the prompt in their source: it has copies of the results."""
    elsewhere: dict[str, str]
    """The same for any other cell: it says the prompt."""
    prompt: str

    def has(self, text: str) -> bool:
        return any(text == bundle["text/html"] for bundle in (self.beside, self.alone, self.elsewhere))


@dataclass(slots=True)
class Record:
    """The record of a run that has ended, and the notebook it belongs to, where that is known."""

    path: str | None
    result: RunResult | None
    """What it is made of, until it is made."""
    below_prompt: bool = False
    """Whether the cell's source has the prompt."""
    _made: Made | None = None
    outdated: Made | None = None
    """What the run had before it was tried again."""

    @property
    def made(self) -> Made:
        """It is made here for whoever can't wait for `make`."""
        if self._made is None:
            assert self.result is not None
            self._made, self.result = _render(self.result, self.below_prompt), None
        return self._made

    async def make(self) -> None:
        if self.result is not None:
            self._made, self.result = await asyncio.to_thread(_render, self.result, self.below_prompt), None

    def stand_alone(self) -> None:
        """Let go of the results."""
        alone = self.made.alone if self.below_prompt else self.made.elsewhere
        self._made, self.outdated = replace(self.made, beside=alone, results=()), None

    @property
    def is_made(self) -> bool:
        return self._made is not None

    @property
    def size(self) -> int:
        return sum(result.size for made in (self._made, self.outdated) if made is not None for result in made.results)


@dataclass(frozen=True, slots=True)
class Cell:
    """What is read of a cell that has outputs."""

    source: str
    outputs: list[Any]


@dataclass(frozen=True, slots=True)
class Place:
    """An output of a notebook in which a run is shown."""

    cell: Cell
    output: dict[str, Any]
    record: Record
    shows: Literal["widget", "outdated", "beside", "alone"]


class RecordKeeper:
    def __init__(self, kernel_manager: Any, session_manager: Any, contents_manager: Any, log: Logger) -> None:
        self._kernels = kernel_manager
        self.places = NotebookPlaces(session_manager, contents_manager)
        self._contents = contents_manager
        self._log = log
        self._records: OrderedDict[str, Record] = OrderedDict()
        self._cleared: OrderedDict[str, None] = OrderedDict()
        self._placing = asyncio.Lock()
        self._open = True
        self.open_runs = OpenRuns(self.places, self.has_record)
        contents_manager.register_pre_save_hook(self.open_runs.pre_save)
        contents_manager.register_pre_save_hook(self.pre_save)

    def close(self) -> None:
        """From now on the hook does nothing: Jupyter has no way to take one back."""
        self._open = False
        self._records.clear()

    def kept(self) -> int:
        """How many records a save would put in place."""
        return len(self._records)

    def has_record(self, widget_model_id: str, path: str) -> bool:
        """Whether the notebook at this path gets a record in place of this widget when it is saved."""
        record = self._records.get(widget_model_id)
        return record is not None and record.path in (None, path)

    def note_cleared(self, run_id: str, *, cleared: bool) -> None:
        """A page has taken what shows a run out of its notebook, or shows it (again)."""
        self._cleared.pop(run_id, None)
        if cleared:
            self._cleared[run_id] = None
            if len(self._cleared) > KEPT_RECORDS:
                self._cleared.popitem(last=False)

    def is_cleared(self, run_id: str) -> bool:
        """Whether no page shows a run that one has shown: its cell was cleared, or its notebook closed."""
        return run_id in self._cleared

    async def notebook_path(
        self, kernel_id: str, cells: Sequence[str | None] = (), known: str | None = None
    ) -> str | None:
        """The notebook of a kernel, or of cells that were run in it: see `NotebookPlaces.notebook_of`."""
        return await self.places.notebook_of(kernel_id, cells, known)

    async def keep(self, spec: RunSpec, result: RunResult, path: str | None) -> None:
        """Keep the record of a run that has ended, by the widget that shows it, for the notebook at `path`."""
        widget_model_id = spec.widget_model_id
        if widget_model_id is None:
            return
        before = self._records.get(widget_model_id)
        outdated = before.made if before is not None else None
        record = Record(path, result, below_prompt=spec.prompt_in_cell, outdated=outdated)
        # Known before it is made: who saves as soon as the answer is there gets it, and waits until it is made.
        self._records[widget_model_id] = record
        while len(self._records) > KEPT_RECORDS:
            self._records.popitem(last=False)
        await record.make()
        self._bound()

    def _bound(self) -> None:
        made = [record for record in self._records.values() if record.is_made]
        size = sum(record.size for record in made)
        for record in made[:-1]:
            if size <= KEPT_BYTES:
                return
            size -= record.size
            record.stand_alone()

    def pre_save(self, model: dict[str, Any], path: str = "", **_: Any) -> None:
        """A hook of the contents manager: runs before each save, in any page's or client's name."""
        if self._open and model.get("type") == "notebook" and isinstance(model.get("content"), dict):
            self._complete(model["content"], path.strip("/"))

    def _complete(self, notebook: dict[str, Any], path: str) -> bool:
        """Put records and results in place. Whether anything was changed."""
        cells = list(_cells(notebook))
        places = [place for cell in cells for place in self._places(cell, path)]
        # The results of a run stand once: where its record has them already, or else where the run is shown first.
        placed = {id(place.record) for place in places if place.shows == "beside"}
        changed = False
        for place in places:
            if place.shows == "beside":
                changed |= _complete_results(place)
            elif place.shows != "alone":
                _place_record(place, with_results=id(place.record) not in placed)
                placed.add(id(place.record))
                changed = True
        return self._clear_up([cell.outputs for cell in cells], path) or changed

    def _places(self, cell: Cell, path: str) -> Iterator[Place]:
        for output in cell.outputs:
            data = output.get("data") if isinstance(output, dict) else None
            if not isinstance(data, dict) or output.get("output_type") not in ("display_data", "execute_result"):
                continue
            view = data.get(WIDGET_MIME)
            if isinstance(view, dict):
                model_id = view.get("model_id")
                record = self._records.get(model_id) if isinstance(model_id, str) else None
                if record is not None and _belongs(record, path):
                    yield Place(cell, output, record, "widget")
            elif (place := self._place_of_record(cell, output, _html(output), path)) is not None:
                yield place

    def _place_of_record(self, cell: Cell, output: dict[str, Any], text: str, path: str) -> Place | None:
        if RECORD_ATTRIBUTE not in text[:RECORD_BEGINS]:
            return None
        # Newest first: runs of the demo have the same record each time.
        for record in reversed(self._records.values()):
            if not _belongs(record, path):
                continue
            if record.is_made and record.made.has(text):
                return Place(cell, output, record, "beside" if record.made.beside["text/html"] == text else "alone")
            if record.outdated is not None and record.outdated.has(text):
                return Place(cell, output, record, "outdated")
        return None

    def _clear_up(self, cells: Iterable[list[Any]], path: str) -> bool:
        """Take away the results of runs of which nothing else is in their cell: a page adds them to a cell that was
        cleared meanwhile, too."""
        marked = [outputs for outputs in cells if any(_mark(output) is not None for output in outputs)]
        if not marked:
            return False
        made = [record for record in self._records.values() if record.is_made and _belongs(record, path)]
        ours = {mark for record in made for mark in _marks(record)}
        changed = False
        for outputs in marked:
            shown = "".join(_html(output) for output in outputs if _mark(output) is None)
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
        """Write a run's record into its notebook's file, where no page is connected that would. True if it was."""
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
        """Whether a page is connected to this kernel. `own` is how many of its connections are this server's."""
        if kernel_id not in self._kernels:
            return True  # nobody can tell any more; the next save runs the hook
        model = await ensure_async(self._kernels.kernel_model(kernel_id))
        return model is None or model["connections"] > own

    async def _rewrite(self, path: str, page_is_open: Callable[[], Awaitable[bool]]) -> bool:
        """Read, replace, save. Raises `HTTPError` 404 where the file is gone: none is ever made."""
        model = await ensure_async(self._contents.get(path, type="notebook", content=True))
        self.open_runs.put_ended(model["content"], path)
        if not self._complete(model["content"], path):
            return False
        now = await ensure_async(self._contents.get(path, type="notebook", content=False))
        if now["last_modified"] != model["last_modified"] or await page_is_open():
            return False  # somebody has opened or saved it meanwhile; their next save runs the hook
        await ensure_async(self._contents.save({"type": "notebook", "content": model["content"]}, path))
        return True

    async def on_contents_action(self, logger: Any, schema_id: str, data: dict[str, Any]) -> None:  # noqa: ARG002
        """A listener of Jupyter's contents events: a record follows its notebook when that is renamed."""
        if data.get("action") != "rename":
            return
        old, new = str(data.get("source_path", "")).strip("/"), str(data.get("path", "")).strip("/")
        for record in self._records.values():
            if record.path == old:
                record.path = new


def _complete_results(place: Place) -> bool:
    """Put the results after a record that has none of them: its page did not show them."""
    results = place.record.made.results
    if not results or any(_mark(output) in _marks(place.record) for output in place.cell.outputs):
        return False
    _insert_after(place, results)
    return True


def _place_record(place: Place, *, with_results: bool) -> None:
    """Put the record where its run is shown, and the results after it, in place of any that it had before."""
    made = place.record.made
    outputs = place.cell.outputs
    outputs[:] = [output for output in outputs if _mark(output) not in _marks(place.record)]
    alone = made.alone if made.prompt.strip() in place.cell.source else made.elsewhere
    place.output["data"], place.output["metadata"] = dict(made.beside if with_results else alone), {}
    if with_results:
        _insert_after(place, made.results)


def _insert_after(place: Place, results: Iterable["Result"]) -> None:
    outputs = place.cell.outputs
    after = next(number for number, output in enumerate(outputs) if output is place.output) + 1
    outputs[after:after] = [deepcopy(result.output) for result in results]


def _marks(record: Record) -> set[tuple[str, int]]:
    made = [record.made] if record.outdated is None else [record.made, record.outdated]
    return {mark for one in made for result in one.results if (mark := _mark(result.output)) is not None}


def _mark(output: Any) -> tuple[str, int] | None:
    """The run and the call that an output says to be a result of."""
    metadata = output.get("metadata") if isinstance(output, dict) else None
    mark = metadata.get(RESULT_MARK) if isinstance(metadata, dict) else None
    if not isinstance(mark, dict):
        return None
    run, call = mark.get("run"), mark.get("call")
    return (run, call) if isinstance(run, str) and isinstance(call, int) else None


def _belongs(record: Record, path: str) -> bool:
    return record.path is None or record.path == path


def _html(output: Any) -> str:
    data = output.get("data") if isinstance(output, dict) else None
    return _text(data.get("text/html")) if isinstance(data, dict) else ""


def _text(value: Any) -> str:
    """As one text: nbformat allows it as a list of lines."""
    return value if isinstance(value, str) else "".join(map(str, value)) if isinstance(value, list) else ""


def _cells(notebook: dict[str, Any]) -> Iterator[Cell]:
    """The cells that have outputs, whatever else is in the notebook."""
    cells = notebook.get("cells")
    for cell in cells if isinstance(cells, list) else ():
        outputs = cell.get("outputs") if isinstance(cell, dict) else None
        if isinstance(outputs, list) and outputs:
            yield Cell(_text(cell.get("source")), outputs)


def _render(result: RunResult, below_prompt: bool) -> Made:
    """Called in a thread. The renderer is loaded with the first run that ends, not with the server."""
    from agent_kernel.record import place_record, render_record

    told = (result.run, result.messages, result.tool_calls)
    placed = place_record(*told, below_prompt=below_prompt)
    alone, elsewhere = render_record(*told, below_prompt=True), render_record(*told)
    return Made(placed.record, placed.results, alone, elsewhere, result.run.prompt)
