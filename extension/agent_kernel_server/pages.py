"""The WebSocket of a page of JupyterLab, by which the server reads and changes the notebooks that the page has open."""

import asyncio

from jupyter_server.auth.decorator import ws_authenticated
from pydantic import ValidationError
from tornado import web
from tornado.iostream import StreamClosedError
from tornado.websocket import WebSocketClosedError

from agent_kernel.protocol.pages import NotebooksOpened, page_message_adapter
from agent_kernel_server.identity import may, until_refused
from agent_kernel_server.notebooks.pages import Page
from agent_kernel_server.service import Service
from agent_kernel_server.sockets import NOT_PERMITTED, SocketHandler

UNREADABLE = 1007
"""The close code of RFC 6455 for data that is not valid."""


class PagesHandler(SocketHandler):
    """What a page says goes to the model, and what it is asked may run code: it takes the right to decide."""

    _page: Page | None = None
    _watch: asyncio.Task[None] | None = None

    @ws_authenticated
    async def get(self) -> None:
        if not await may(self, "execute"):
            raise web.HTTPError(403)
        await super().get()

    def open(self, *_: str, **__: str) -> None:
        super().open()
        self.set_nodelay(True)
        self._page = Page(self._send)
        self.service.page_sockets.add(self)
        self._watch = self.service.tasks.spawn(self._watch_rights(), "rights of a page")

    async def _watch_rights(self) -> None:
        await until_refused(self, "execute")
        self.close(NOT_PERMITTED, "not permitted")

    def _send(self, frame: str) -> None:
        self.service.tasks.spawn(self._write(frame), "request to a page")

    async def _write(self, frame: str) -> None:
        try:
            await self.write_message(frame)
        except (WebSocketClosedError, StreamClosedError):
            if self._page is not None:
                self._page.gone()

    async def on_message(self, message: str | bytes) -> None:
        if self._page is None:
            return
        try:
            found = page_message_adapter.validate_json(message)
        except ValidationError:
            self.close(UNREADABLE, "not a message of a page")
            return
        await self.service.pages.on_message(self._page, found)
        if isinstance(found, NotebooksOpened):
            self.service.tasks.spawn(self.service.documents.on_opened(self._page, found), "runs that a page shows")

    def on_close(self) -> None:
        service: Service | None = self.settings[self.name].service
        if service is not None and self._page is not None:
            service.page_sockets.discard(self)
            service.pages.close(self._page)
        if self._watch is not None:
            self._watch.cancel()
        super().on_close()
