"""Looks for a prompt in a notebook whose page was just served: the page itself asks for the notebook a second later,
when the browser is busy and the kernel starts."""

import asyncio
import json
import re
from collections.abc import Callable
from contextlib import suppress
from typing import Any
from urllib.parse import unquote

from jupyter_core.utils import ensure_async
from tornado import web

from agent_kernel.runtime.tasks import TaskOwner
from agent_kernel_server.notebooks.page_handler import PROMPTS, has_prompt

MOST_BYTES = 20_000_000
LOOK = "look at an opened notebook"
_PAGE = re.compile(r"(?:(?:lab|doc)(?:/workspaces/[^/]+)?/tree|notebooks)/(.+\.ipynb)")
"""The pages of JupyterLab and Notebook, below the server's base URL."""


class OpenedPages:
    """Calls `on_prompt` for each page of a notebook with a prompt."""

    def __init__(self, web_app: web.Application, contents_manager: Any, on_prompt: Callable[[], None]) -> None:
        self._web_app = web_app
        self._manager = contents_manager
        self._on_prompt = on_prompt
        self._tasks = TaskOwner()

    def listen(self) -> None:
        """Tornado calls `log_function` after each request: by then the page's own handler has let the user in."""
        log = self._web_app.settings["log_function"]

        def log_and_look(handler: web.RequestHandler) -> None:
            log(handler)
            if handler.get_status() == 200 and handler.request.method == "GET":
                self.on_request(handler.request.path)

        self._web_app.settings["log_function"] = log_and_look

    def on_request(self, address: str) -> None:
        """A request for this path was answered."""
        page = _PAGE.fullmatch(address.removeprefix(self._web_app.settings["base_url"]))
        if page is not None:
            self._tasks.spawn(self._look(unquote(page[1])), LOOK)

    async def _look(self, path: str) -> None:
        with suppress(web.HTTPError, OSError, ValueError):  # the page is told what is wrong with it
            if await self._has_prompt(path.removeprefix("RTC:")):
                self._on_prompt()

    async def _has_prompt(self, path: str) -> bool:
        found = await ensure_async(self._manager.get(path, content=False))
        if (found.get("size") or 0) > MOST_BYTES:
            return False
        # As text: the server checks a notebook's form and signature when the page asks for it.
        text = (await ensure_async(self._manager.get(path, content=True, type="file", format="text")))["content"]
        if not isinstance(text, str) or not any(word in text for word in PROMPTS):
            return False
        return has_prompt({"type": "notebook", "content": await asyncio.to_thread(json.loads, text)})

    async def aclose(self) -> None:
        await self._tasks.aclose()
