"""`PageContentsHandler` takes the place of Jupyter's handler of notebooks: see `contents.PageContents`."""

from collections.abc import Callable
from typing import Any

from jupyter_core.utils import ensure_async
from jupyter_server.services.contents import handlers as contents
from jupyter_server.services.contents.handlers import ContentsHandler
from tornado import web

from agent_kernel_server.notebooks.outputs import notebook_in

EXTENSION = "agent_kernel_server"
PROMPTS = ("agent_kernel", "%agent")
"""What a cell has that loads the extension or asks an agent."""


class PageContentsHandler(ContentsHandler):
    """Pages that load a notebook get the widgets of its open runs, once there can be any. Until then, a notebook with a
    prompt has the service loaded: its reader is likely to run it."""

    @property
    def contents_manager(self) -> Any:
        app = self.settings[EXTENSION]
        manager = self.settings["contents_manager"]
        if app.service is None:
            return PlainContents(manager, app.prepare)
        from agent_kernel_server.notebooks.contents import PageContents

        return PageContents(manager, app.service.records)


CONTENTS_HANDLERS: list[tuple[str, type[web.RequestHandler]]] = [
    # All of Jupyter's routes to contents, in its order: the pattern of the last one covers those before it.
    (path, PageContentsHandler if one is ContentsHandler else one)
    for path, one in contents.default_handlers
]


class PlainContents:
    """Wraps the server's contents manager. Other attributes are the manager's."""

    def __init__(self, manager: Any, on_prompt: Callable[[], None]) -> None:
        self._manager = manager
        self._on_prompt = on_prompt

    def __getattr__(self, name: str) -> Any:
        return getattr(self._manager, name)

    async def get(self, *args: Any, **kwargs: Any) -> Any:
        model = await ensure_async(self._manager.get(*args, **kwargs))
        if has_prompt(model):
            self._on_prompt()
        return model


def has_prompt(model: object) -> bool:
    """Whether a code cell of a contents model's notebook has the extension loaded, or asks an agent."""
    notebook = notebook_in(model)
    cells = notebook.get("cells") if notebook is not None else None
    return isinstance(cells, list) and any(
        prompt in text
        for cell in cells
        if isinstance(cell, dict) and cell.get("cell_type") == "code"
        for text in _texts(cell.get("source"))
        for prompt in PROMPTS
    )


def _texts(source: object) -> list[str]:
    lines = source if isinstance(source, list) else [source]
    return [line for line in lines if isinstance(line, str)]
