"""The WebSockets: to a client of a conversation, which carries the frames of a `ClientSession`, and to a page of
JupyterLab, by which the server reads and changes the notebooks that the page has open."""

import asyncio
from collections.abc import Sequence
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
from agent_kernel.runtime.clients.session import ClientGone, ClientSession
from agent_kernel.runtime.conversation import Conversation
from agent_kernel_server.identity import AUTH_RESOURCE, may, person_of, until_refused
from agent_kernel_server.notebooks.pages import Page
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
    auth_resource = AUTH_RESOURCE

    @property
    def service(self) -> Service:
        service: Service = self.settings[self.name].service
        return service

    @property
    def max_message_size(self) -> int:
        return ACCEPTED_FRAME_BYTES

    def set_default_headers(self) -> None:
        """Nothing: the headers that Jupyter sets are for pages."""

    def skip_check_origin(self) -> bool:
        """Never. Jupyter skips the check for a token, and a token in a URL is what a foreign page could have."""
        return False

    def on_close(self) -> None:
        pings: Any = self.ping_callback
        if pings is not None:
            pings.stop()  # else it holds this handler until the next ping is due
        super().on_close()


class ChannelHandler(SocketHandler):
    conversation: Conversation
    session: ClientSession | None = None
    _tasks: Sequence[asyncio.Task[None]] = ()
    _left = False
    """Whether the client has gone, which may be before its channel is open."""

    @ws_authenticated
    async def get(self, conversation_id: str) -> None:
        if not await may(self, "read"):
            raise web.HTTPError(403)
        try:
            runtime = await self.service.runtime()
            self.conversation = await runtime.wait_for_conversation(conversation_id, ANNOUNCED_SECONDS)
        except UnknownConversation as error:
            raise web.HTTPError(404, str(error)) from error
        except ConfigurationError as error:  # there is no log
            raise web.HTTPError(503, str(error)) from error
        if not self._left:
            await super().get(conversation_id)

    def open(self, *_: str, **__: str) -> None:
        super().open()
        self.set_nodelay(True)
        self.session = ClientSession(
            self.conversation,
            self,
            person=person_of(self.current_user),
            may=partial(may, self),
            on_shown=self._on_shown,
        )
        self.service.channels.add(self)
        name = f"channel of {self.conversation.conversation_id}"
        self._tasks = [
            self.service.tasks.spawn(self._run(self.session), name),
            self.service.tasks.spawn(self._watch_rights(self.session), f"rights of the {name}"),
        ]

    async def _run(self, session: ClientSession) -> None:
        try:
            await session.run()
        finally:
            self.close(*((NOT_PERMITTED, "not permitted") if session.refused else ()))

    async def _watch_rights(self, session: ClientSession) -> None:
        await until_refused(self, "read")
        await session.refuse()

    async def send(self, frame: bytes) -> None:
        try:
            await self.write_message(frame)
        except (WebSocketClosedError, StreamClosedError) as error:
            raise ClientGone from error

    async def on_message(self, message: str | bytes) -> None:
        """Tornado waits for its end before it reads the next."""
        if self.session is not None:
            await self.session.receive(message)

    def shows(self, run_id: str) -> bool:
        return self.session is not None and run_id in self.session.runs_shown

    def _on_shown(self, run_id: str) -> None:
        self.service.records.note_cleared(run_id, cleared=not self.service.is_shown(run_id))

    def on_close(self) -> None:
        self._left = True
        self.service.channels.discard(self)
        if self.session is not None:
            self.session.close()
        for task in self._tasks:
            task.cancel()
        super().on_close()


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
