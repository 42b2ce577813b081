"""The WebSocket to one client: carries the frames of a `ClientSession`."""

import asyncio
from collections.abc import Sequence
from functools import partial

from jupyter_server.auth.decorator import ws_authenticated
from tornado import web
from tornado.iostream import StreamClosedError
from tornado.websocket import WebSocketClosedError

from agent_kernel.errors import ConfigurationError, UnknownConversation
from agent_kernel.runtime.clients.session import ClientGone, ClientSession
from agent_kernel.runtime.conversation import Conversation
from agent_kernel_server.identity import may, person_of, until_refused
from agent_kernel_server.sockets import NOT_PERMITTED, SocketHandler

ANNOUNCED_SECONDS = 5.0
"""How long a channel waits for its conversation: a page that shows a run may be here before the run is announced."""


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
