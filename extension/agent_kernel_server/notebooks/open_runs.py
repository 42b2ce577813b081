"""`OpenRuns`: replaces the widgets of open runs in saved notebooks, and restores them for pages that load one.

A saved widget shows "model not found" wherever its kernel is gone. So the present state of the run is saved instead:
the calls that wait for a person, with their code. A mark in the output's metadata names the run. A page that loads the
notebook through this server while the run is open gets the widget again; a copy, or a file that is read elsewhere,
keeps the saved state.

Only the id of a widget or a run is read from a notebook, and looked up among the runs of this server. A widget's id
is in a file only where the notebook was saved before the kernel had told this server of the run.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from agent_kernel.errors import AgentKernelError
from agent_kernel.protocol.vocabulary import OPEN_RUN_MARK, RUN_VIEW
from agent_kernel.record.so_far import render_so_far
from agent_kernel.runtime.conversation import Conversation
from agent_kernel.runtime.settings import RunSpec
from agent_kernel_server.notebooks.outputs import (
    WIDGET_MIME,
    Notebook,
    cells_of,
    displays_of,
    metadata_of,
    notebook_in,
    put_widget,
    widget_in,
)
from agent_kernel_server.notebooks.paths import NotebookPaths

WAIT_SECONDS = 5
"""How long a save waits at most for the start of a run, or for the record of one that has just ended."""
ENDED_RUNS = 500
"""How many runs that have ended are kept in mind, because a notebook may have been saved while they were open."""


class OpenRun:
    """One open run, and its state as it was last rendered."""

    def __init__(self, spec: RunSpec, widget_model_id: str, conversation: Conversation) -> None:
        self.spec = spec
        self.widget_model_id = widget_model_id
        self.conversation = conversation
        self.bundle: dict[str, Any] | None = None
        self.waits = False
        """Whether it waits for a person."""
        self.has_record = asyncio.Event()
        """Set when the run has ended and its record is kept."""
        self._seen: int | None = None

    async def refresh(self) -> None:
        """Render the run's present state, unless nothing has happened since the last time.

        Pages hear of a run's end a moment before its record is kept. A save in between waits for the record.
        """
        last = self.conversation.last_seq
        if last == self._seen:
            return
        try:
            progress = await self.conversation.progress(self.spec.run_id)
        except AgentKernelError:
            return  # deleted, or the log can't be read now: the last state stays
        if progress.run.ended_at is not None:
            with suppress(TimeoutError):
                await asyncio.wait_for(self.has_record.wait(), WAIT_SECONDS)
                return
        self.bundle = await asyncio.to_thread(render_so_far, progress, below_prompt=self.spec.prompt_in_cell)
        self._seen, self.waits = last, progress.waits


class OpenRuns:
    def __init__(self, paths: NotebookPaths, has_record: Callable[[str, str], bool]) -> None:
        """`has_record` says whether a save of the notebook at a path replaces a widget by its run's record."""
        self._paths = paths
        self._has_record = has_record
        self._runs: dict[str, OpenRun] = {}
        self._starting: list[tuple[str | None, asyncio.Event]] = []
        """The widgets' model ids, as kernels declare them, and what is set when the run is open or could not start."""
        self._ended: OrderedDict[str, str] = OrderedDict()
        """The widgets' model ids, by run."""

    @contextmanager
    def starting(self, spec: RunSpec) -> Iterator[None]:
        """A run starts, whose widget its cell shows already. A save in between waits until the run is open. Until it is
        in the log it may be anybody's, or none, so nothing else is done about it."""
        known = asyncio.Event()
        start = (spec.widget_model_id, known)
        self._starting.append(start)
        try:
            yield
        finally:
            self._starting.remove(start)
            known.set()

    def on_start(self, spec: RunSpec, conversation: Conversation) -> None:
        """A run is open: a new one, one that was recovered after a restart, or one that is tried again."""
        if spec.widget_model_id is not None:
            self._runs[spec.run_id] = OpenRun(spec, spec.widget_model_id, conversation)
            self._ended.pop(spec.run_id, None)

    def on_end(self, spec: RunSpec) -> None:
        """A run has ended, in this server or in an earlier one. Its record is kept by then."""
        run = self._runs.pop(spec.run_id, None)
        if run is not None:
            run.has_record.set()
        if spec.widget_model_id is not None:
            self._ended[spec.run_id] = spec.widget_model_id
            while len(self._ended) > ENDED_RUNS:
                self._ended.popitem(last=False)

    def find(self, run_id: str) -> OpenRun | None:
        return self._runs.get(run_id)

    def widget_of_ended(self, run_id: str) -> str | None:
        return self._ended.get(run_id)

    async def prepare(self, model: object) -> None:
        """Refresh the runs that a notebook shows, before a save. Other threads read and render, so that the hook only
        has to insert the result."""
        if (self._runs or self._starting) and (notebook := notebook_in(model)) is not None:
            await self._until_started(notebook)
            shown = {id(run): run for output in _displays(notebook) if (run := self._shown_by(output)) is not None}
            for run in shown.values():
                await run.refresh()

    async def _until_started(self, notebook: Notebook) -> None:
        if not self._starting:
            return
        shown = {widget for output in _displays(notebook) if (widget := widget_in(output)) is not None}
        waited_for = [known for widget, known in self._starting if widget in shown]
        with suppress(TimeoutError):
            async with asyncio.timeout(WAIT_SECONDS):
                for known in waited_for:
                    await known.wait()

    def pre_save(self, model: object, path: str = "", **_: Any) -> None:
        """A pre-save hook of the contents manager: called before each save by any page or client."""
        if not self._runs and not self._ended:
            return
        notebook = notebook_in(model)
        for output in _displays(notebook) if notebook is not None else ():
            run = self._shown_by(output)
            if run is not None:
                _put_static(output, run)
            else:
                self._put_ended(output, path.strip("/"))

    async def restore_widgets(self, notebook: Notebook, path: str) -> None:
        """Restore the widgets of open runs in a notebook that a page loads."""
        if not self._runs:
            return
        marked = [(output, run) for output in _displays(notebook) if (run := self._runs.get(_mark(output)))]
        if not marked:
            return
        paths = await self._paths.by_kernel()
        for output, run in marked:
            known: list[str | None] = [*paths.get(run.conversation.kernel_id or "", ())]
            if path in (known or [run.spec.notebook_path]):
                put_widget(output, run.widget_model_id)

    def put_ended(self, notebook: Notebook, path: str) -> bool:
        """Where a notebook has the saved state of a run that has ended since, put the run's widget, which a record will
        replace. Whether there is such a run."""
        return True in [self._put_ended(output, path) for output in _displays(notebook)]

    def _put_ended(self, output: dict[str, Any], path: str) -> bool:
        widget_model_id = self._ended.get(_mark(output))
        found = widget_model_id is not None and self._has_record(widget_model_id, path)
        if widget_model_id is not None and found:
            put_widget(output, widget_model_id)
        return found

    def _shown_by(self, output: dict[str, Any]) -> OpenRun | None:
        """The open run whose widget an output shows."""
        shown = widget_in(output)
        return next((run for run in self._runs.values() if run.widget_model_id == shown), None) if shown else None


def _displays(notebook: Notebook) -> Iterator[dict[str, Any]]:
    return (output for cell in cells_of(notebook) for output in displays_of(cell))


def _mark(output: dict[str, Any]) -> str:
    mark = metadata_of(output, OPEN_RUN_MARK)
    return mark if isinstance(mark, str) else ""


def _put_static(output: dict[str, Any], run: OpenRun) -> None:
    """Replace a widget by the run's state, or by the text beside the widget if the state was not rendered yet."""
    static = {kind: shown for kind, shown in (run.bundle or output["data"]).items() if kind != WIDGET_MIME}
    output["data"] = static | {RUN_VIEW: {"run_id": run.spec.run_id}}
    output["metadata"] = {OPEN_RUN_MARK: run.spec.run_id}
