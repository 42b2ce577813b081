"""The messages of a run's widget, which carry the frames of a `ClientSession` where the runtime is in the kernel."""

import asyncio
import json
from typing import Any

from agent_kernel.runtime.clients.session import ClientGone, ClientSession
from agent_kernel.runtime.conversation import Conversation
from agent_kernel.runtime.tasks import TaskOwner

MESSAGES_PER_SECOND = 30
"""A kernel's messages are dropped in a flood: of 5,000 sent one by one, 3,000 arrived."""
FRAMES_PER_MESSAGE = 500
EARLY_FRAMES = 100
"""So many frames of pages are kept while their conversation is being opened."""
DRAIN_SECONDS = 1.0


class WidgetChannel:
    """One widget's line to all pages that show it. `attach` is for the main thread, all else for the runtime's loop."""

    def __init__(self, widget: Any, loop: asyncio.AbstractEventLoop, tasks: TaskOwner) -> None:
        self._widget = widget
        self._loop = loop
        self._tasks = tasks
        self._session: ClientSession | None = None
        self._running: list[asyncio.Task[None]] = []
        self._early: list[bytes] = []
        self._batch: list[str] = []
        self._news = asyncio.Event()
        self._posted = asyncio.Event()
        self._closed = False
        self.seen = asyncio.Event()
        """Set once a page that shows the widget has said something."""

    @property
    def on_screen(self) -> bool:
        """Whether a page shows the run just now."""
        return self._session is not None and bool(self._session.runs_shown)

    def attach(self) -> None:
        self._widget.on_command(self._from_page)
        _answer_where_the_page_asks(self._widget.comm)
        # The comm's own way says before and after each message that a cell is executed: a plot that the waiting cell
        # has begun would be shown there and then, as an output of the message.
        self._widget.comm.handle_msg = self._widget._handle_msg

    def open(self, conversation: Conversation) -> None:
        session = self._session = ClientSession(conversation, self, shared=True)
        self._running.append(self._tasks.spawn(session.run(), "events for the page"))
        self._running.append(self._tasks.spawn(self._post(), "frames to the page"))
        for frame in self._early:
            self._receive(frame)
        self._early.clear()

    async def drain(self) -> None:
        """Wait until the page has been sent all that is committed; the widget is about to close."""
        session = self._session
        try:
            async with asyncio.timeout(DRAIN_SECONDS):
                while not self._closed and (self._batch or not (session is None or session.is_caught_up)):
                    await self._posted.wait()
        except TimeoutError:
            return

    def close(self) -> None:
        """The page is sent what waits for its message, such as the answer to a command that came late."""
        self._closed = True
        self._posted.set()
        for task in self._running:
            task.cancel()
        if self._session is not None:
            self._session.close()
        self._post_next()

    def _from_page(self, command: dict[str, Any]) -> None:
        frame = json.dumps(command, ensure_ascii=False).encode("utf-8", "surrogatepass")
        self._loop.call_soon_threadsafe(self._receive, frame)

    def _receive(self, frame: bytes) -> None:
        self.seen.set()
        if self._session is not None:
            self._session.conversation.client_came()
            self._tasks.spawn(self._session.receive(frame), "command of the page")
        elif len(self._early) < EARLY_FRAMES:
            self._early.append(frame)

    async def send(self, frame: bytes) -> None:
        self._batch.append(frame.decode())
        self._news.set()
        while len(self._batch) > FRAMES_PER_MESSAGE and not self._closed:
            await self._posted.wait()
        if self._closed:
            raise ClientGone

    async def _post(self) -> None:
        while True:
            await self._news.wait()
            await asyncio.sleep(1 / MESSAGES_PER_SECOND)
            self._post_next()
            if not self._batch:
                self._news.clear()
            self._posted.set()
            self._posted.clear()

    def _post_next(self) -> None:
        frames = self._batch[:FRAMES_PER_MESSAGE]
        if frames:
            self._widget.post_frames(frames)
        del self._batch[: len(frames)]


def _answer_where_the_page_asks(comm: Any) -> None:
    """In ipykernel 7.4 a page's messages go to the thread that last published on the comm: the main thread, which may
    be waiting for just this message. The page's own subshell, which it names in each message, is always free."""
    if hasattr(comm, "_reply_subshell_for"):
        comm._reply_subshell_for = lambda _data, named: named
