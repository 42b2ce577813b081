"""The contents manager for pages, which load widgets and records of runs in place of their saved state.

Other readers of notebooks, such as copies, downloads or nbconvert, get what is saved.
"""

from collections.abc import Callable
from typing import Any

from jupyter_core.utils import ensure_async
from jupyter_server.services.contents import handlers
from jupyter_server.services.contents.handlers import ContentsHandler
from tornado import web

from agent_kernel_server.notebooks.outputs import has_prompt, notebook_in
from agent_kernel_server.notebooks.records import RecordKeeper

EXTENSION = "agent_kernel_server"


class PageContents:
    """Wraps the server's contents manager. Other attributes are the manager's."""

    def __init__(self, manager: Any, records: RecordKeeper, on_prompt: Callable[[], None]) -> None:
        """`on_prompt` is called when a page loads a notebook with a prompt, which is likely to be run."""
        self._manager = manager
        self._records = records
        self._on_prompt = on_prompt

    def __getattr__(self, name: str) -> Any:
        return getattr(self._manager, name)

    async def get(self, *args: Any, **kwargs: Any) -> Any:
        """With the widgets of open runs, and the records of those that have ended since the notebook was saved."""
        model = await ensure_async(self._manager.get(*args, **kwargs))
        notebook = notebook_in(model)
        if notebook is not None:
            path = str(model["path"]).strip("/")
            if has_prompt(notebook):
                self._on_prompt()
            await self._records.open_runs.restore_widgets(notebook, path)
            if self._records.open_runs.put_ended(notebook, path):
                await self._records.prepare(model, path)
                self._records.pre_save(model, path)
        return model

    async def save(self, model: Any, path: str = "") -> Any:
        await self._prepare(model, path)
        return await ensure_async(self._manager.save(model, path))

    async def new(self, model: Any = None, path: str = "") -> Any:
        """As `save`, under a new name."""
        await self._prepare(model, path)
        return await ensure_async(self._manager.new(model, path))

    async def _prepare(self, model: Any, path: str) -> None:
        """Refresh the runs' state, and do the work of the pre-save hooks, which then find nothing to do: a manager may
        have no hooks."""
        await self._records.open_runs.prepare(model)
        await self._records.prepare(model, path)
        self._records.open_runs.pre_save(model, path)
        if isinstance(model, dict):
            self._records.pre_save(model, path)


class PageContentsHandler(ContentsHandler):
    """In place of Jupyter's handler."""

    @property
    def contents_manager(self) -> Any:
        manager, service = self.settings["contents_manager"], self.settings[EXTENSION].service
        if service is None:  # the server stops, and a page may still save
            return manager
        return PageContents(manager, service.records, service.warm_up)


CONTENTS_HANDLERS: list[tuple[str, type[web.RequestHandler]]] = [
    # All of Jupyter's routes to contents, in its order: the pattern of the last one covers those before it.
    (path, PageContentsHandler if one is ContentsHandler else one)
    for path, one in handlers.default_handlers
]
