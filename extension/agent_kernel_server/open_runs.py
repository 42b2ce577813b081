"""OpenRuns keeps the widgets of runs that go on out of saved notebooks, and brings them back to pages that load one.

A saved widget says "model not found" wherever its kernel is not, so what is saved is how the run stands: what waits for
a person, with its code. A mark in the output's metadata names the run. A page that loads the notebook through this
server while the run goes on gets the widget again; a copy, or a file that is read elsewhere, has what was saved.

A notebook is never trusted: a widget's id or a run's is all that is read from it, and it is looked up among the runs
that go on, or have ended, in this server. The widget's id is never in a file.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any

from agent_kernel.errors import AgentKernelError
from agent_kernel.runtime.clients.progress import RunProgress
from agent_kernel.runtime.conversation import Conversation
from agent_kernel.runtime.settings import RunSpec
from agent_kernel_server.places import NotebookPlaces

WIDGET_MIME = "application/vnd.jupyter.widget-view+json"
OPEN_MARK = "agent_kernel_open_run"
ENDED_RUNS = 500
"""How many runs that have ended are still known by what was saved of them."""

Notebook = dict[str, Any]


class OpenRun:
    """One run, and how it stood when that was last asked for."""

    def __init__(self, spec: RunSpec, widget_model_id: str, conversation: Conversation) -> None:
        self.spec = spec
        self.widget_model_id = widget_model_id
        self.conversation = conversation
        self.bundle: dict[str, str] | None = None
        self._seen: int | None = None

    async def refresh(self) -> None:
        """Make what a notebook says of it now, unless nothing has happened since it was made."""
        last = self.conversation.last_seq
        if last == self._seen:
            return
        try:
            progress = await self.conversation.progress(self.spec.run_id)
        except AgentKernelError:
            return  # deleted, or the log can't be read just now: what was made stays
        self.bundle = await asyncio.to_thread(_render, progress, self.spec.prompt_in_cell)
        self._seen = last


class OpenRuns:
    def __init__(self, places: NotebookPlaces, has_record: Callable[[str, str], bool]) -> None:
        """`has_record` says whether the record of a widget's run will be put in its place in the notebook at a path."""
        self._places = places
        self._has_record = has_record
        self._runs: dict[str, OpenRun] = {}
        self._ended: OrderedDict[str, str] = OrderedDict()
        """The widgets of runs, by run."""

    def begun(self, spec: RunSpec, conversation: Conversation) -> None:
        """A run goes on: a new one, one after a restart of the server, or one that is tried again."""
        if spec.widget_model_id is not None:
            self._runs[spec.run_id] = OpenRun(spec, spec.widget_model_id, conversation)
            self._ended.pop(spec.run_id, None)

    def ended(self, spec: RunSpec) -> None:
        """A run has ended, in this server or in an earlier one, and its record is kept."""
        self._runs.pop(spec.run_id, None)
        if spec.widget_model_id is not None:
            self._ended[spec.run_id] = spec.widget_model_id
            while len(self._ended) > ENDED_RUNS:
                self._ended.popitem(last=False)

    async def prepare(self, model: object) -> None:
        """Before a save: find out how the runs stand that the notebook shows. Reading and rendering is done by other
        threads, so that the hook only puts it in place."""
        if self._runs and (notebook := notebook_in(model)) is not None:
            shown = {id(run): run for output in outputs_of(notebook) if (run := self._shown_by(output)) is not None}
            for run in shown.values():
                await run.refresh()

    def pre_save(self, model: object, path: str = "", **_: Any) -> None:
        """A hook of the contents manager: runs before each save, in any page's or client's name."""
        if not self._runs and not self._ended:
            return
        notebook = notebook_in(model)
        for output in outputs_of(notebook) if notebook is not None else ():
            run = self._shown_by(output)
            if run is not None:
                _put_static(output, run)
            else:
                self._put_ended(output, path.strip("/"))

    async def bring_back(self, notebook: Notebook, path: str) -> None:
        """Give a page that loads a notebook the widgets of the runs that go on there."""
        if not self._runs:
            return
        marked = [(output, run) for output in outputs_of(notebook) if (run := self._runs.get(_mark(output)))]
        if not marked:
            return
        paths = await self._places.by_kernel()
        for output, run in marked:
            known: list[str | None] = [*paths.get(run.conversation.kernel_id or "", ())]
            if path in (known or [run.spec.notebook_path]):
                _put_widget(output, run.widget_model_id)

    def put_ended(self, notebook: Notebook, path: str) -> bool:
        """Where a notebook says how a run stood that has ended since, have its record put in place. Whether there is
        such a run."""
        return True in [self._put_ended(output, path) for output in outputs_of(notebook)]

    def _put_ended(self, output: dict[str, Any], path: str) -> bool:
        widget_model_id = self._ended.get(_mark(output))
        found = widget_model_id is not None and self._has_record(widget_model_id, path)
        if widget_model_id is not None and found:
            _put_widget(output, widget_model_id)
        return found

    def _shown_by(self, output: dict[str, Any]) -> OpenRun | None:
        """The run that goes on whose widget this is."""
        shown = widget_in(output)
        return next((run for run in self._runs.values() if run.widget_model_id == shown), None) if shown else None


def notebook_in(model: object) -> Notebook | None:
    """The notebook of a contents model, where it has one."""
    if not isinstance(model, dict) or model.get("type") != "notebook":
        return None
    content = model.get("content")
    return content if isinstance(content, dict) else None


def outputs_of(notebook: Notebook) -> Iterator[dict[str, Any]]:
    """The display outputs of a notebook, whatever else is in it."""
    cells = notebook.get("cells")
    for cell in cells if isinstance(cells, list) else ():
        outputs = cell.get("outputs") if isinstance(cell, dict) else None
        for output in outputs if isinstance(outputs, list) else ():
            if isinstance(output, dict) and output.get("output_type") in ("display_data", "execute_result"):
                yield output


def widget_in(output: dict[str, Any]) -> str | None:
    """The id of the widget that an output shows."""
    data = output.get("data")
    view = data.get(WIDGET_MIME) if isinstance(data, dict) else None
    model_id = view.get("model_id") if isinstance(view, dict) else None
    return model_id if isinstance(model_id, str) else None


def _mark(output: dict[str, Any]) -> str:
    metadata = output.get("metadata")
    mark = metadata.get(OPEN_MARK) if isinstance(metadata, dict) else None
    return mark if isinstance(mark, str) else ""


def _put_static(output: dict[str, Any], run: OpenRun) -> None:
    """What the run's kernel has displayed beside the widget stands where nothing was made yet."""
    output["data"] = {kind: shown for kind, shown in (run.bundle or output["data"]).items() if kind != WIDGET_MIME}
    output["metadata"] = {OPEN_MARK: run.spec.run_id}


def _put_widget(output: dict[str, Any], widget_model_id: str) -> None:
    """What was saved stays beside it, for pages that have no widgets."""
    view = {"model_id": widget_model_id, "version_major": 2, "version_minor": 1}
    data = output.get("data")
    output["data"] = {**(data if isinstance(data, dict) else {}), WIDGET_MIME: view}
    output["metadata"] = {}


def _render(progress: RunProgress, below_prompt: bool) -> dict[str, str]:
    """Called in a thread. The renderer is loaded with the first run that is saved, not with the server."""
    from agent_kernel.record.so_far import Ahead, render_so_far

    ahead = Ahead(progress.ahead.prompt, progress.ahead_waits) if progress.ahead is not None else None
    return render_so_far(progress.run, progress.calls, progress.ended, ahead, below_prompt=below_prompt)
