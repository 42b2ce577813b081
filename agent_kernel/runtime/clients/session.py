"""One client's session with a conversation, whatever carries its frames.

A `session` event with a snapshot comes first, then the events from where the client left off. Commands are handled one
after another, in the order in which they came. A new kind of client is a `ClientTransport`, and two calls: `run` for
what is sent, `receive` for each frame that came. A client that cannot send, such as an HTTP stream, is one that never
calls `receive`.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Protocol

from agent_kernel.errors import LogUnavailable
from agent_kernel.protocol.commands import ClientCommand, PingCommand, ResumeCommand, ShownCommand
from agent_kernel.protocol.events import AckEvent, ErrorEvent, PongEvent, Reply
from agent_kernel.runtime.clients.dispatch import (
    InvalidFrame,
    NotAllowed,
    Right,
    handle_command,
    parse_frame,
    reply_for,
)
from agent_kernel.runtime.clients.feed import Subscription
from agent_kernel.runtime.clients.snapshot import session_frame, tool_views
from agent_kernel.runtime.conversation import Conversation

REPLAYED_EVENTS = 50_000
"""A client that left off further back gets a `session` instead: its snapshot replaces all that the client knows."""
HOLD_SECONDS = 0.15
"""Events wait so long for a client's first frame, with which one that reconnects says where it left off."""
RUNS_SHOWN = 1_000
"""The most runs per client that are remembered as shown."""

logger = logging.getLogger(__name__)


class ClientGone(Exception):
    """Raised by a transport whose client has left."""


class ClientTransport(Protocol):
    """Carries frames to one client."""

    async def send(self, frame: bytes) -> None:
        """Send a frame, which is JSON in UTF-8, behind those that were sent before; return when there is room for the
        next one. Raises `ClientGone`."""


May = Callable[[Right], Awaitable[bool]]
"""Whether a client has a right, asked at each command that needs it."""


async def may_always(_: Right) -> bool:
    return True


class ClientSession:
    """For the runtime's event loop.

    A `shared` transport sends to all pages that show something, and is not told when one comes. A page that resumes
    from the beginning is new there, and is greeted then; the `session` names that `resume`, so that the others can
    ignore it.
    """

    def __init__(
        self,
        conversation: Conversation,
        transport: ClientTransport,
        *,
        person: str | None = None,
        may: May = may_always,
        on_shown: Callable[[str], None] | None = None,
        left_off: int | None = None,
        shared: bool = False,
    ) -> None:
        """`person` is whom the log names for what the client does. `on_shown` is called with each run that the client
        begins or ceases to show. `left_off` is the last `seq` that the client has, where it says so on connecting."""
        self.conversation = conversation
        self.runs_shown: set[str] = set()
        self._transport = transport
        self._person = person
        self._may = may
        self.refused = False
        """Whether it has ended because its client may not look any more."""
        self._on_shown = on_shown
        self._left_off = left_off
        self._shared = shared
        self._subscription: Subscription | None = None
        self._greeted = asyncio.Event()
        """Set while there is a subscription whose `session` was sent."""
        self._greeted_for: str | None = None
        self._first_frame = asyncio.Event()
        if left_off is not None:
            self._first_frame.set()
        self._turn = asyncio.Lock()
        self._closed = False

    @property
    def is_caught_up(self) -> bool:
        """Whether everything that is committed was given to the transport, or nobody has asked for it."""
        return self._subscription is None or self._subscription.cursor >= self.conversation.last_seq

    @property
    def cursor(self) -> int:
        """The last event of those that the transport was given without a gap. A client that left off earlier has its
        own here until the first event follows the `session`."""
        return self._subscription.cursor if self._subscription is not None else self._left_off or 0

    async def run(self) -> None:
        """Send the `session` and the events, until the client leaves, the conversation ends, or `close` is called."""
        try:
            async with self._turn:
                await self._greet_first()
            while not self._closed:
                await self._greeted.wait()
                subscription = self._subscription
                if subscription is not None:
                    await self._send_events(subscription)
                if self._subscription is subscription:
                    return
        except ClientGone:
            logger.debug("A client of %s has gone", self.conversation.conversation_id)
        except LogUnavailable as error:  # what the client missed can't be read
            with suppress(ClientGone):
                await self._send(self._error(error, None))
        finally:
            self.close()

    async def receive(self, frame: str | bytes) -> None:
        """Handle one frame and reply to it, after those for which this was called before."""
        try:
            async with self._turn:
                await self._greet_first()
                reply = None if self._closed else await self._answer(frame)
                if reply is not None:
                    await self._send(reply)
                if self.refused:
                    self.close()
        except ClientGone:
            self.close()
        finally:
            self._first_frame.set()

    async def refuse(self) -> None:
        """End it because the client may not look any more, and say so."""
        self.refused = True
        with suppress(ClientGone):
            await self._send(self._error(NotAllowed("read"), None))
        self.close()

    def close(self) -> None:
        self._closed = True
        if self._subscription is not None:
            self._subscription.close()
        self._greeted.set()

    async def _greet_first(self) -> None:
        if not (self._shared or self._greeted.is_set()):
            await self._greet(None, self._left_off)

    async def _greet(self, command_id: str | None, left_off: int | None) -> None:
        """Send a `session`. What follows are the events after `left_off`, or those that its snapshot lacks: where the
        client has none, and where it is far behind."""
        self._greeted.clear()
        if self._subscription is not None:
            self._subscription.close()
            self._subscription = None
        tools = tool_views(await self.conversation.tools())
        snapshot = await self.conversation.snapshot()
        if self._closed:
            return
        if left_off is None or self._is_far_behind(left_off):
            left_off = snapshot.view.last_seq
        self._subscription = self.conversation.subscribe(min(left_off, snapshot.view.last_seq))
        self.conversation.client_came()
        await self._transport.send(session_frame(snapshot, tools, command_id))
        self._greeted.set()

    async def _send_events(self, subscription: Subscription) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(HOLD_SECONDS):
                await self._first_frame.wait()
        self._first_frame.set()
        async for frame in subscription:
            await self._transport.send(frame.encode())

    async def _answer(self, frame: str | bytes) -> Reply | None:
        command: ClientCommand | None = None
        try:
            command = parse_frame(frame)
            return None if command is None else await self._handle(command)
        except ClientGone:
            raise
        except InvalidFrame as error:
            return self._error(error, error.command_id)
        except Exception as error:  # noqa: BLE001 -- the session outlives a fault of one command
            return self._failed(error, command)

    async def _handle(self, command: ClientCommand) -> Reply | None:
        """Carry a command out; its reply."""
        match command:
            case PingCommand():
                return PongEvent(**self._envelope(command.id))
            case ResumeCommand():
                if not await self._may("read"):
                    self.refused = True
                    raise NotAllowed("read")
                if await self._resume(command):
                    return None
            case ShownCommand():
                self._note_shown(command)
            case _:
                if not await self._may("execute"):
                    raise NotAllowed("execute")
                await handle_command(command, self.conversation, self._person)
        return None if command.id is None else AckEvent(**self._envelope(command.id))

    async def _resume(self, command: ResumeCommand) -> bool:
        """Go on from where a client left off. True where a `session` has answered it."""
        is_new = self._shared and command.last_seq == 0
        if is_new and command.id is not None and command.id == self._greeted_for:
            return False  # a page asks again until something comes
        if is_new:
            self.runs_shown.clear()  # a page that is loaded again says what it shows
        if is_new or self._subscription is None or self._is_far_behind(command.last_seq):
            self._greeted_for = command.id
            await self._greet(command.id, command.last_seq)
            return True
        self._subscription.rewind(min(command.last_seq, self.conversation.last_seq))
        return False

    def _is_far_behind(self, last_seq: int) -> bool:
        return self.conversation.last_seq - last_seq > REPLAYED_EVENTS

    def _note_shown(self, command: ShownCommand) -> None:
        if not command.shown:
            self.runs_shown.discard(command.run_id)
        elif len(self.runs_shown) < RUNS_SHOWN:
            self.runs_shown.add(command.run_id)
        if self._on_shown is not None:
            self._on_shown(command.run_id)

    def _failed(self, error: Exception, command: ClientCommand | None) -> ErrorEvent:
        reply = self._error(error, command.id if command is not None else None)
        kind = command.type if command is not None else None
        if isinstance(error, LogUnavailable):
            logger.warning("The command %s was not carried out: %s", kind, error)
        elif reply.code == "INTERNAL_ERROR":
            logger.error("The command %s failed", kind, exc_info=error)
        return reply

    def _error(self, error: Exception, command_id: str | None) -> ErrorEvent:
        reply = reply_for(error)
        return ErrorEvent(
            **self._envelope(command_id),
            code=reply.code,
            message=reply.message,
            tool_call_id=reply.tool_call_id,
            details=reply.details,
        )

    def _envelope(self, command_id: str | None) -> dict[str, Any]:
        return {
            "seq": self.conversation.last_seq,
            "conversation_id": self.conversation.conversation_id,
            "command_id": command_id,
        }

    async def _send(self, reply: Reply) -> None:
        await self._transport.send(reply.model_dump_json().encode())
