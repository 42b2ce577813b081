"""RecordKeeper puts a run's static record where its widget was, in the saved notebook.

A saved widget shows nothing once its kernel has gone. The kernel replaces it in an open page; this is for what is
saved while that has not happened, and for runs that end with no page open at all. A run that is tried again has its
new record put where the first one stands. A notebook is never trusted: all that is read from it is the id of a
widget's model, or a record, which is looked up among those of the runs that ended in this server.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from logging import Logger
from typing import Any

from jupyter_core.utils import ensure_async
from tornado.web import HTTPError

from agent_kernel.loop.run import RunResult
from agent_kernel.loop.settings import RunSpec
from agent_kernel_server.places import NotebookPlaces

WIDGET_MIME = "application/vnd.jupyter.widget-view+json"
CONTENTS_ACTIONS = "https://events.jupyter.org/jupyter_server/contents_service/v1"
KEPT_RECORDS = 500


@dataclass(slots=True)
class Record:
    """The record of a run that has ended, and the notebook it belongs to, where that is known."""

    path: str | None
    result: RunResult | None
    """What it is made of, until it is made."""
    made: dict[str, str] = field(default_factory=dict)
    below_prompt: bool = False
    """Whether the cell's source has the prompt."""
    outdated: str | None = None
    """The HTML of the record that the run had before it was tried again."""

    @property
    def bundle(self) -> dict[str, str]:
        """What is shown of it, by MIME type. It is made here for whoever can't wait for `make`."""
        if self.result is not None:
            self.made, self.result = _render(self.result, self.below_prompt), None
        return self.made

    async def make(self) -> None:
        if self.result is not None:
            self.made, self.result = await asyncio.to_thread(_render, self.result, self.below_prompt), None


class RecordKeeper:
    def __init__(self, kernel_manager: Any, session_manager: Any, contents_manager: Any, log: Logger) -> None:
        self._kernels = kernel_manager
        self.places = NotebookPlaces(session_manager, contents_manager)
        self._contents = contents_manager
        self._log = log
        self._records: OrderedDict[str, Record] = OrderedDict()
        self._placing = asyncio.Lock()
        self._open = True
        contents_manager.register_pre_save_hook(self.pre_save)

    def close(self) -> None:
        """From now on the hook does nothing: Jupyter has no way to take one back."""
        self._open = False
        self._records.clear()

    def kept(self) -> int:
        """How many records a save would put in place."""
        return len(self._records)

    async def notebook_path(self, kernel_id: str, cell_id: str | None = None) -> str | None:
        """The notebook of a kernel, or of a cell that was run in it."""
        return await self.places.notebook_of(kernel_id, cell_id)

    async def keep(self, spec: RunSpec, result: RunResult, path: str | None) -> None:
        """Keep the record of a run that has ended, by the widget that shows it, for the notebook at `path`."""
        widget_model_id = spec.widget_model_id
        if widget_model_id is None:
            return
        before = self._records.get(widget_model_id)
        outdated = before.bundle["text/html"] if before is not None else None
        record = Record(path, result, below_prompt=spec.prompt_in_cell, outdated=outdated)
        # Known before it is made: who saves as soon as the answer is there gets it, and waits until it is made.
        self._records[widget_model_id] = record
        while len(self._records) > KEPT_RECORDS:
            self._records.popitem(last=False)
        await record.make()

    def pre_save(self, model: dict[str, Any], path: str = "", **_: Any) -> None:
        """A hook of the contents manager: runs before each save, in any page's or client's name."""
        if self._open and model.get("type") == "notebook" and isinstance(model.get("content"), dict):
            self._replace_widgets(model["content"], path.strip("/"))

    def _replace_widgets(self, notebook: dict[str, Any], path: str) -> int:
        """How many outputs were replaced."""
        replaced = 0
        for output in _outputs(notebook):
            record = self._record_of(output, path)
            if record is not None:
                output["data"] = dict(record.bundle)
                output["metadata"] = {}
                replaced += 1
        return replaced

    def _record_of(self, output: dict[str, Any], path: str) -> Record | None:
        data = output.get("data")
        if not isinstance(data, dict):
            return None
        view = data.get(WIDGET_MIME)
        model_id = view.get("model_id") if isinstance(view, dict) else None
        record = self._records.get(model_id) if isinstance(model_id, str) else self._in_place_of(data.get("text/html"))
        if record is None or (record.path is not None and record.path != path):
            return None
        return record

    def _in_place_of(self, text: object) -> Record | None:
        """The record of a run that was tried again, by the one that it had before."""
        known = "".join(map(str, text)) if isinstance(text, list) else text
        same = (record for record in self._records.values() if record.outdated is not None and record.outdated == known)
        return next(same, None)

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
        if not self._replace_widgets(model["content"], path):
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


def _outputs(notebook: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The display outputs of a notebook, whatever else is in it."""
    cells = notebook.get("cells")
    for cell in cells if isinstance(cells, list) else ():
        outputs = cell.get("outputs") if isinstance(cell, dict) else None
        for output in outputs if isinstance(outputs, list) else ():
            if isinstance(output, dict) and output.get("output_type") in ("display_data", "execute_result"):
                yield output


def _render(result: RunResult, below_prompt: bool) -> dict[str, str]:
    """Called in a thread. The renderer is loaded with the first run that ends, not with the server."""
    from agent_kernel.record import render_record

    return dict(render_record(result.run, result.messages, result.tool_calls, below_prompt=below_prompt))
