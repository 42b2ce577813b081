"""The line between an embedded runtime and the pages that show a run: custom messages of the run's widget."""

import asyncio
import json
from typing import Any

from pydantic import ValidationError

from agent_kernel.errors import (
    AgentKernelError,
    AlreadyDecided,
    DigestMismatch,
    IllegalTransition,
    NotFound,
    UndoRefused,
)
from agent_kernel.protocol.commands import (
    ClientCommand,
    PingCommand,
    ResumeCommand,
    ShownCommand,
    client_command_adapter,
)
from agent_kernel.protocol.events import ErrorEvent, PongEvent
from agent_kernel.protocol.vocabulary import ErrorCode
from agent_kernel.runtime.clients.commands import handle_command
from agent_kernel.runtime.clients.feed import Subscription
from agent_kernel.runtime.clients.greeting import greet, is_far_behind
from agent_kernel.runtime.conversation import Conversation
from agent_kernel.runtime.tasks import TaskOwner

MESSAGES_PER_SECOND = 30
"""A kernel's messages are dropped in a flood: of 5,000 sent one by one, 3,000 arrived."""
FRAMES_PER_MESSAGE = 500
DRAIN_SECONDS = 1.0


class WidgetChannel:
    """One widget's line. `attach` is for the main thread, all else for the runtime's event loop."""

    def __init__(self, widget: Any, loop: asyncio.AbstractEventLoop, tasks: TaskOwner) -> None:
        self._widget = widget
        self._loop = loop
        self._tasks = tasks
        self._conversation: Conversation | None = None
        self._subscription: Subscription | None = None
        self._batch: list[str] = []
        self._news = asyncio.Event()
        self._sent = asyncio.Event()
        self._early: list[Any] = []
        self._last_seq = 0
        self._at_work: list[asyncio.Task[None]] = []
        self._greeting: asyncio.Task[None] | None = None
        self.on_screen = False
        """Whether the page shows the run just now. A page that is loaded again says so anew."""
        self.seen = asyncio.Event()
        """Set once a page has shown the widget and asked for events."""

    def attach(self) -> None:
        self._widget.on_command(self._from_page)
        _answer_where_the_page_asks(self._widget.comm)
        # The comm's own way says before and after each message that a cell is executed: a plot that the waiting cell
        # has begun would be shown there and then, as an output of the message.
        self._widget.comm.handle_msg = self._widget._handle_msg

    def open(self, conversation: Conversation) -> None:
        self._conversation = conversation
        self._at_work.append(self._tasks.spawn(self._send(), "frames to the page"))
        for command in self._early:
            self._received(command)
        self._early.clear()

    async def drain(self) -> None:
        """Wait until the page has been sent all that is committed; the widget is about to close."""
        if self._subscription is None or self._conversation is None:
            return
        try:
            async with asyncio.timeout(DRAIN_SECONDS):
                while self._batch or self._last_seq < self._conversation.last_seq:
                    self._sent.clear()
                    await self._sent.wait()
        except TimeoutError:
            return

    def close(self) -> None:
        for task in self._at_work:
            task.cancel()
        if self._greeting is not None:
            self._greeting.cancel()
        if self._subscription is not None:
            self._subscription.close()

    def _from_page(self, command: dict[str, Any]) -> None:
        self._loop.call_soon_threadsafe(self._received, command)

    def _received(self, raw: Any) -> None:
        if self._conversation is None:
            self._early.append(raw)
            return
        self._tasks.spawn(self._answer(raw, self._conversation), "command of the page")

    async def _answer(self, raw: Any, conversation: Conversation) -> None:
        try:
            command = client_command_adapter.validate_python(raw)
        except ValidationError as error:
            self._say_error(conversation, "INVALID_FORMAT", str(error.errors(include_url=False)[0]["msg"]))
            return
        try:
            await self._handle_command(command, conversation)
        except AlreadyDecided as error:
            self._say_error(conversation, "CONFLICT", str(error), error.first.get("tool_call_id"), error.first)
        except (DigestMismatch, IllegalTransition) as error:
            self._say_error(conversation, "CONFLICT", str(error))
        except UndoRefused as error:
            self._say_error(conversation, "CONFLICT", str(error), error.tool_call_id)
        except NotFound as error:
            self._say_error(conversation, "INVALID_FORMAT", str(error), details={"unknown": error.identifier})
        except AgentKernelError as error:
            self._say_error(conversation, "INVALID_FORMAT", str(error))

    async def _handle_command(self, command: ClientCommand, conversation: Conversation) -> None:
        match command:
            case ResumeCommand():
                self.on_screen = False
                self._resume(conversation, command.last_seq)
            case ShownCommand():
                self.on_screen = command.shown
            case PingCommand():
                pong = PongEvent(seq=conversation.last_seq, conversation_id=conversation.conversation_id)
                self._put(pong.model_dump_json())
            case _:
                await handle_command(command, conversation)

    def _resume(self, conversation: Conversation, last_seq: int) -> None:
        self.seen.set()
        if self._greeting is not None and not self._greeting.done():
            return  # a page asks again until it hears something
        if is_far_behind(conversation, last_seq):
            self._greeting = self._tasks.spawn(self._greet(conversation), "a snapshot for the page")
        elif self._subscription is not None:
            self._subscription.rewind(min(last_seq, conversation.last_seq))
        else:
            self._follow(conversation.subscribe(last_seq))

    async def _greet(self, conversation: Conversation) -> None:
        greeting = await greet(conversation)
        if self._subscription is not None:
            self._subscription.close()
        self._put(greeting.frame.decode())
        self._last_seq = greeting.last_seq
        self._follow(greeting.subscription)

    def _follow(self, subscription: Subscription) -> None:
        self._subscription = subscription
        self._tasks.spawn(self._read(subscription), "events for the page")

    async def _read(self, subscription: Subscription) -> None:
        async for frame in subscription:
            self._put(frame)
            self._last_seq = json.loads(frame)["seq"]

    def _put(self, frame: str) -> None:
        self._batch.append(frame)
        self._news.set()

    async def _send(self) -> None:
        while True:
            await self._news.wait()
            await asyncio.sleep(1 / MESSAGES_PER_SECOND)
            frames = self._batch[:FRAMES_PER_MESSAGE]
            self._widget.post_frames(frames)
            del self._batch[: len(frames)]
            if not self._batch:
                self._news.clear()
            self._sent.set()

    def _say_error(
        self,
        conversation: Conversation,
        code: ErrorCode,
        message: str,
        tool_call_id: str | None = None,
        details: dict[str, Any] | None = None,
    ) -> None:
        event = ErrorEvent(
            seq=conversation.last_seq,
            conversation_id=conversation.conversation_id,
            code=code,
            message=message,
            tool_call_id=tool_call_id,
            details=details or {},
        )
        self._put(event.model_dump_json())


def _answer_where_the_page_asks(comm: Any) -> None:
    """In ipykernel 7.4 a page's messages go to the thread that last published on the comm: the main thread, which may
    be waiting for just this message. The page's own subshell, which it names in each message, is always free."""
    if hasattr(comm, "_reply_subshell_for"):
        comm._reply_subshell_for = lambda _data, named: named
