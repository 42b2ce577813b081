"""Responses that stay open: server-sent events, with a comment from time to time while there is nothing to say."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from tornado.iostream import StreamClosedError

from agent_kernel.runtime.clients.session import ClientGone, ClientSession
from agent_kernel_server.base_handler import NUMBER, AgentKernelHandler, Refusal
from agent_kernel_server.identity import until_refused

HEARTBEAT_SECONDS = 15.0
"""The time after which a silent stream sends a comment: it keeps proxies from closing the connection, and finds out
that a client has gone without a word."""
MEDIA_TYPE = "text/event-stream"
LAST_EVENT_ID = "Last-Event-ID"
"""The header in which a browser's `EventSource` says where it left off when it connects again."""


class StreamHandler(AgentKernelHandler):
    """A response that is written piece by piece. Each `write_text` returns when the client's connection took what was
    written, so that a slow client holds up its own stream and nothing else."""

    refused = False

    def initialize(self, *arguments: Any, **named: Any) -> None:
        super().initialize(*arguments, **named)
        self._writing = asyncio.Lock()

    @contextmanager
    def watched(self) -> Iterator[None]:
        """While the block runs, the service knows of this response, which ends when its user loses the right to it."""
        watching = self.service.tasks.spawn(self._watch_rights(), f"rights of {self.request.path}")
        self.service.streams.add(self)
        try:
            yield
        finally:
            watching.cancel()
            self.service.streams.discard(self)

    @asynccontextmanager
    async def open_stream(self) -> AsyncIterator[None]:
        """Send the headers, and comments while the block runs."""
        self.set_header("Content-Type", MEDIA_TYPE)
        self.set_header("Cache-Control", "no-cache")
        self.set_header("X-Accel-Buffering", "no")
        beating = self.service.tasks.spawn(self._beat(), f"heartbeat of {self.request.path}")
        try:
            with self.watched():
                await self._flush()
                yield
        except ClientGone:
            return
        finally:
            beating.cancel()

    async def write_text(self, text: bytes) -> None:
        """Raises `ClientGone`."""
        async with self._writing:
            self.write(text)
            await self._flush()

    async def _flush(self) -> None:
        try:
            await self.flush()
        except StreamClosedError as error:
            raise ClientGone from error

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(HEARTBEAT_SECONDS)
            if not self._writing.locked():
                try:
                    await self.write_text(b": still here\n\n")
                except ClientGone:
                    self.close()
                    return

    async def _watch_rights(self) -> None:
        await until_refused(self, self.actions[str(self.request.method)])
        self.refused = True
        await self.refuse()

    async def refuse(self) -> None:
        """End the response, because its user has lost the right to it."""
        self.close()

    def on_connection_close(self) -> None:
        super().on_connection_close()
        self.close()

    def close(self) -> None:
        """End the stream, because the client has gone or the server stops."""
        raise NotImplementedError


class EventsHandler(StreamHandler):
    """A conversation's events for clients that only listen, such as `curl -N` and a browser's `EventSource`."""

    _session: ClientSession | None = None

    async def get(self, conversation_id: str) -> None:
        left_off = self._left_off()
        conversation = await (await self.runtime()).conversation(conversation_id)
        self._session = ClientSession(conversation, self, left_off=left_off)
        async with self.open_stream():
            await self._session.run()

    def _left_off(self) -> int | None:
        """The last event that the client has: by its header, which is newer than the address, or by `after`.
        Raises `Refusal` 400."""
        last_id = self.request.headers.get(LAST_EVENT_ID)
        if last_id is None:
            after = self.query_number("after", -1)
            return None if after == -1 else after
        if NUMBER.fullmatch(last_id) is None:
            raise Refusal(400, f"{LAST_EVENT_ID}: {last_id[:20]!r} is not the number of an event", field=LAST_EVENT_ID)
        return int(last_id)

    async def send(self, frame: bytes) -> None:
        """As the session's transport. A frame's id is not always its `seq`: missed events may follow the `session`."""
        assert self._session is not None
        await self.write_text(b"id: %d\ndata: %b\n\n" % (self._session.cursor, frame))

    async def refuse(self) -> None:
        if self._session is not None:
            await self._session.refuse()

    def close(self) -> None:
        if self._session is not None:
            self._session.close()
