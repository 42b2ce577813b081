"""The WebSocket channel: a conversation's committed events down, commands up.

The `session` event goes first. Live events then wait for the client's first frame, or 150 ms, so that a client which
reconnects can say with `resume` where it left off before anything else arrives.
"""

import asyncio
from contextlib import suppress
from typing import Any

from jupyter_server.auth.decorator import ws_authenticated
from jupyter_server.base.handlers import JupyterHandler
from jupyter_server.base.websocket import WebSocketMixin
from jupyter_server.extension.handler import ExtensionHandlerMixin
from tornado import web
from tornado.iostream import StreamClosedError
from tornado.websocket import WebSocketClosedError, WebSocketHandler

from agent_kernel.errors import ConfigurationError, LogUnavailable, UnknownConversation
from agent_kernel.protocol.events import ErrorEvent, Event, PongEvent
from agent_kernel.runtime.clients.commands import handle_command
from agent_kernel.runtime.clients.feed import Subscription
from agent_kernel.runtime.clients.greeting import greet, is_far_behind
from agent_kernel.runtime.conversation import Conversation
from agent_kernel_server.dispatch import InvalidFrame, Reply, parse_frame, reply_for
from agent_kernel_server.identity import AUTH_RESOURCE, may, person_of
from agent_kernel_server.service import Service

ANNOUNCED_SECONDS = 5.0
"""How long a channel waits for its conversation: a page that shows a run may be here before the run is announced."""

HOLD_SECONDS = 0.15
RUNS_SHOWN = 1_000
"""So many runs of a page are kept in mind."""
ACCEPTED_FRAME_BYTES = 64 * 1024 * 1024
"""Tornado closes the socket on a larger frame, before anything can be answered. Frames between the protocol's
`MAX_FRAME_BYTES` and this one are read and refused with INVALID_FORMAT."""

READ_COMMANDS = frozenset({"ping", "resume", "shown"})
"""What someone who may only look may send: these change nothing."""


class ChannelHandler(ExtensionHandlerMixin, WebSocketMixin, WebSocketHandler, JupyterHandler):
    auth_resource = AUTH_RESOURCE
    conversation: Conversation
    _subscription: Subscription | None = None
    _writer: asyncio.Task[None] | None = None
    _resume_from: int | None = None
    _far_behind = False
    _left = False
    """Whether the client has gone, which may be before its channel is open."""

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

    @ws_authenticated
    async def get(self, conversation_id: str) -> None:
        if not await may(self, "read"):
            raise web.HTTPError(403)
        try:
            runtime = await self.service.runtime()
            self.conversation = await runtime.conversation_soon(conversation_id, ANNOUNCED_SECONDS)
        except UnknownConversation as error:
            raise web.HTTPError(404, str(error)) from error
        except ConfigurationError as error:  # there is no log
            raise web.HTTPError(503, str(error)) from error
        if not self._left:
            await super().get(conversation_id)

    def open(self, *_: str, **__: str) -> None:
        super().open()
        self.runs_shown: set[str] = set()
        self.set_nodelay(True)
        self._first_frame = asyncio.Event()
        self.service.channels.add(self)
        self._writer = self.service.tasks.spawn(self._write_events(), f"channel of {self.conversation.conversation_id}")

    async def _write_events(self) -> None:
        try:
            subscription = await self._greet()
            try:
                async with asyncio.timeout(HOLD_SECONDS):
                    await self._first_frame.wait()
            except TimeoutError:
                self._first_frame.set()
            while True:
                async for frame in subscription:
                    await self.write_message(frame)
                if not self._far_behind:
                    return
                self._far_behind = False
                subscription = await self._greet()
        except (WebSocketClosedError, StreamClosedError):
            self.log.debug("A client of %s has gone", self.conversation.conversation_id)
        except LogUnavailable as error:  # what the client missed can't be read
            with suppress(WebSocketClosedError, StreamClosedError):
                await self._write(self._event(reply_for(error)))
        finally:
            self.close()

    async def _greet(self) -> Subscription:
        """Send a `session`; what follows it is in the subscription."""
        greeting = await greet(self.conversation)
        self._subscription = greeting.subscription
        self.conversation.client_came()
        self._rewind()
        await self.write_message(greeting.frame)
        return greeting.subscription

    def _rewind(self) -> None:
        """A client may say where it left off before its `session` event is read from the log."""
        if self._subscription is None or self._resume_from is None:
            return
        last_seq, wanted = self.conversation.last_seq, self._resume_from
        self._resume_from = None
        if is_far_behind(self.conversation, wanted):
            self._far_behind = True
            self._subscription.close()
        else:
            self._subscription.rewind(min(wanted, last_seq))

    async def on_message(self, message: str | bytes) -> None:
        """One frame. Tornado waits for its end before it reads the next, so commands keep their order."""
        try:
            reply = await self._answer(message)
        finally:
            self._first_frame.set()
        if reply is not None:
            try:
                await self._write(self._event(reply))
            except (WebSocketClosedError, StreamClosedError):
                self.log.debug("A client left before its answer")

    async def _answer(self, message: str | bytes) -> Reply | None:
        try:
            command = parse_frame(message)
        except InvalidFrame as error:
            return Reply("INVALID_FORMAT", str(error))
        if command is None:
            return None
        if command.type not in READ_COMMANDS and not await may(self, "execute"):
            return Reply("ACCESS_DENIED", "You may look at this conversation, but not act in it.")
        if command.type == "ping":
            return Reply("PONG")
        if command.type == "shown":
            self._note_shown(command.run_id, shown=command.shown)
            return None
        if command.type == "resume":
            self._resume_from = command.last_seq
            self._rewind()
            return None
        try:
            await handle_command(command, self.conversation, person_of(self.current_user))
        except Exception as error:  # the socket outlives a fault of one command
            reply = reply_for(error)
            if isinstance(error, LogUnavailable):
                self.log.warning("The command %s was not carried out: %s", command.type, error)
            elif reply.code == "INTERNAL_ERROR":
                self.log.exception("The command %s failed", command.type)
            return reply
        return None

    def _note_shown(self, run_id: str, *, shown: bool) -> None:
        if not shown:
            self.runs_shown.discard(run_id)
        elif len(self.runs_shown) < RUNS_SHOWN:
            self.runs_shown.add(run_id)
        self.service.records.note_cleared(run_id, cleared=not self.service.is_shown(run_id))

    def _event(self, reply: Reply) -> Event:
        envelope: dict[str, Any] = {
            "seq": self.conversation.last_seq,
            "conversation_id": self.conversation.conversation_id,
        }
        if reply.code == "PONG":
            return PongEvent(**envelope)
        return ErrorEvent(
            **envelope,
            code=reply.code,
            message=reply.message,
            tool_call_id=reply.tool_call_id,
            details=reply.details,
        )

    async def _write(self, event: Event) -> None:
        await self.write_message(event.model_dump_json())

    def on_close(self) -> None:
        self._left = True
        self.service.channels.discard(self)
        pings: Any = self.ping_callback
        if pings is not None:
            pings.stop()  # else it holds this handler until the next ping is due
        if self._subscription is not None:
            self._subscription.close()
        if self._writer is not None:
            self._writer.cancel()
        super().on_close()
