"""The WebSockets: to a client of a conversation, which carries the frames of a `ClientSession`, and to a page of
JupyterLab, by which the server reads and changes the notebooks that the page has open."""

import asyncio
from functools import partial
from typing import Any

from jupyter_server.auth.decorator import ws_authenticated
from jupyter_server.base.handlers import JupyterHandler
from jupyter_server.base.websocket import WebSocketMixin
from jupyter_server.extension.handler import ExtensionHandlerMixin
from pydantic import ValidationError
from tornado import web
from tornado.iostream import StreamClosedError
from tornado.websocket import WebSocketClosedError, WebSocketHandler

from agent_kernel.errors import ConfigurationError, UnknownConversation
from agent_kernel.protocol.pages import NotebooksOpened, page_message_adapter
from agent_kernel.runtime.clients.dispatch import Right
from agent_kernel.runtime.clients.session import ClientGone, ClientSession
from agent_kernel.runtime.conversation import Conversation
from agent_kernel_server.identity import AUTH_RESOURCE, may, person_of, until_refused
from agent_kernel_server.notebooks.open_pages import Page
from agent_kernel_server.service import Service

ANNOUNCED_SECONDS = 5.0
"""How long a channel waits for its conversation: a page that shows a run may be here before the run is announced."""
ACCEPTED_FRAME_BYTES = 64 * 1024 * 1024
"""Tornado closes the socket on a larger frame, before anything can be answered. Of a channel, frames between the
protocol's `MAX_FRAME_BYTES` and this one are read and refused with INVALID_FORMAT."""

NOT_PERMITTED = 1008
"""The close code of RFC 6455 for a client that may not look any more."""
UNREADABLE = 1007
"""The close code of RFC 6455 for data that is not valid."""


class SocketHandler(ExtensionHandlerMixin, WebSocketMixin, WebSocketHandler, JupyterHandler):
    """Who may open a socket, and that it ends with that right."""

    auth_resource = AUTH_RESOURCE
    right: Right = "read"
    service: Service
    _watching: asyncio.Task[None] | None = None
    _left = False
    """Whether the client has gone, which may be before its socket is open."""

    def initialize(self, *arguments: Any, **named: Any) -> None:
        super().initialize(*arguments, **named)
        self.service = self.settings[self.name].service

    @property
    def max_message_size(self) -> int:
        return ACCEPTED_FRAME_BYTES

    def set_default_headers(self) -> None:
        """Nothing: the headers that Jupyter sets are for pages."""

    def skip_check_origin(self) -> bool:
        """Never. Jupyter skips the check for a token, and a token in a URL is what a foreign page could have."""
        return False

    @ws_authenticated
    async def get(self, *names: str) -> None:
        if not await may(self, self.right):
            raise web.HTTPError(403)
        await self.find(*names)
        if not self._left:
            await super().get(*names)

    async def find(self, name: str = "") -> None:
        """Find what the address names. Raises `HTTPError`."""

    def open(self, *_: str, **__: str) -> None:
        super().open()
        self.set_nodelay(True)
        self._watching = self.service.tasks.spawn(self._watch_rights(), f"rights of {self.request.path}")

    async def _watch_rights(self) -> None:
        await until_refused(self, self.right)
        await self.refuse()

    async def refuse(self) -> None:
        self.close(NOT_PERMITTED, "not permitted")

    async def send(self, frame: str | bytes) -> None:
        """Raises `ClientGone`."""
        try:
            await self.write_message(frame)
        except (WebSocketClosedError, StreamClosedError) as error:
            raise ClientGone from error

    def on_close(self) -> None:
        self._left = True
        if self._watching is not None:
            self._watching.cancel()
        pings: Any = self.ping_callback
        if pings is not None:
            pings.stop()  # else it holds this handler until the next ping is due
        super().on_close()


class ChannelHandler(SocketHandler):
    conversation: Conversation
    session: ClientSession | None = None
    _running: asyncio.Task[None] | None = None

    async def find(self, name: str = "") -> None:
        try:
            runtime = await self.service.runtime()
            self.conversation = await runtime.wait_for_conversation(name, ANNOUNCED_SECONDS)
        except UnknownConversation as error:
            raise web.HTTPError(404, str(error)) from error
        except ConfigurationError as error:  # there is no log
            raise web.HTTPError(503, str(error)) from error

    def open(self, *_: str, **__: str) -> None:
        super().open()
        self.session = ClientSession(
            self.conversation,
            self,
            person=person_of(self.current_user),
            may=partial(may, self),
            on_shown=self._on_shown,
        )
        self.service.channels.add(self)
        name = f"channel of {self.conversation.conversation_id}"
        self._running = self.service.tasks.spawn(self._run(self.session), name)

    async def _run(self, session: ClientSession) -> None:
        try:
            await session.run()
        finally:
            self.close(*((NOT_PERMITTED, "not permitted") if session.refused else ()))

    async def refuse(self) -> None:
        if self.session is not None:
            await self.session.refuse()

    async def on_message(self, message: str | bytes) -> None:
        """Tornado waits for its end before it reads the next."""
        if self.session is not None:
            await self.session.receive(message)

    def shows(self, run_id: str) -> bool:
        return self.session is not None and run_id in self.session.runs_shown

    def _on_shown(self, run_id: str) -> None:
        self.service.records.note_cleared(run_id, cleared=not self.service.is_shown(run_id))

    def on_close(self) -> None:
        self.service.channels.discard(self)
        if self.session is not None:
            self.session.close()
        if self._running is not None:
            self._running.cancel()
        super().on_close()


class PagesHandler(SocketHandler):
    """What a page says goes to the model, and what it is asked may run code: it takes the right to decide."""

    right: Right = "execute"
    _page: Page | None = None

    def open(self, *_: str, **__: str) -> None:
        super().open()
        self._page = Page(lambda frame: self.service.tasks.spawn(self._ask(frame), "request to a page"))
        self.service.page_sockets.add(self)

    async def _ask(self, frame: str) -> None:
        try:
            await self.send(frame)
        except ClientGone:
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
        self.service.page_sockets.discard(self)
        if self._page is not None:
            self.service.pages.close(self._page, lost=self.close_code is None)
        super().on_close()
