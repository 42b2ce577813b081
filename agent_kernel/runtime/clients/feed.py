"""A conversation's committed events, as exact streams for any number of clients.

A subscription has a cursor and yields cursor + 1, cursor + 2, ... A client that keeps up is served from a short buffer;
one that has fallen behind reads from the log, so that a slow client costs nothing and loses nothing.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator

from agent_kernel.log.event_rows import Frame, frames_after
from agent_kernel.log.store import Log
from agent_kernel.protocol.events import ErrorEvent
from agent_kernel.protocol.vocabulary import ErrorCode

_BUFFERED = 512
_BATCH = 256
_NOTICES = 8
_CHARACTERS_AT_ONCE = 65_536
"""A client that takes frames without waiting leaves the event loop to others after so many."""


class Feed:
    def __init__(self, log: Log, conversation: int, conversation_id: str, last_seq: int) -> None:
        self._log = log
        self._conversation = conversation
        self._conversation_id = conversation_id
        self._recent: deque[Frame] = deque(maxlen=_BUFFERED)
        self._subscriptions: set[Subscription] = set()
        self.last_seq = last_seq
        self.shown = asyncio.Event()
        """Set once a page has shown the conversation, in this life of the process."""
        log.listen(conversation, self._publish)

    def close(self) -> None:
        self._log.listen(self._conversation, None)
        for subscription in list(self._subscriptions):
            subscription.close()

    def subscribe(self, after_seq: int | None = None) -> "Subscription":
        subscription = Subscription(self, self.last_seq if after_seq is None else after_seq)
        self._subscriptions.add(subscription)
        return subscription

    def forget(self) -> None:
        """Keep no frames in memory; a subscription that needs them reads the log."""
        self._recent.clear()

    @property
    def is_followed(self) -> bool:
        return bool(self._subscriptions)

    def announce(self, code: ErrorCode, message: str) -> None:
        """Send the clients that are connected an error that can't be logged."""
        event = ErrorEvent(seq=self.last_seq, conversation_id=self._conversation_id, code=code, message=message)
        for subscription in self._subscriptions:
            subscription.announce(event.model_dump_json())

    def drop(self, subscription: "Subscription") -> None:
        self._subscriptions.discard(subscription)
        if not self._subscriptions:
            self.forget()  # the buffer is for connected clients

    async def after(self, seq: int) -> list[Frame]:
        """The next frames after `seq`; empty when there are none yet."""
        if seq >= self.last_seq:
            return []
        if self._recent and self._recent[0].seq <= seq + 1:
            return [frame for frame in self._recent if frame.seq > seq]
        return await self._log.read_apart(
            lambda sql: frames_after(sql, self._conversation, self._conversation_id, seq, _BATCH)
        )

    def _publish(self, frames: list[Frame]) -> None:
        if frames[0].seq != self.last_seq + 1:
            self.forget()  # another server on the same log wrote in between: the log has all of it
        if self._subscriptions:
            self._recent.extend(frames)
        self.last_seq = frames[-1].seq
        for subscription in self._subscriptions:
            subscription.notify()


class Subscription:
    """An asynchronous iterator of frames as JSON text: in order, each once, none missing."""

    def __init__(self, feed: Feed, cursor: int) -> None:
        self._feed = feed
        self._cursor = cursor
        self._changed = asyncio.Event()
        self._closed = False
        self._rewound = False
        self._notices: deque[str] = deque(maxlen=_NOTICES)

    @property
    def cursor(self) -> int:
        """The `seq` of the last event that was yielded."""
        return self._cursor

    def announce(self, text: str) -> None:
        """Yield a frame that is no event of the conversation."""
        self._notices.append(text)
        self._changed.set()

    def rewind(self, last_seq: int) -> None:
        """The next frames are those after `last_seq`."""
        self._cursor = last_seq
        self._rewound = True
        self._changed.set()

    def notify(self) -> None:
        """There may be more to yield."""
        self._changed.set()

    def close(self) -> None:
        self._closed = True
        self._changed.set()
        self._feed.drop(self)

    async def __aiter__(self) -> AsyncIterator[str]:
        at_once = 0
        while not self._closed:
            self._rewound = False
            self._changed.clear()
            frames = await self._feed.after(self._cursor)
            while self._notices:
                yield self._notices.popleft()
            if not frames and not self._rewound:
                await self._changed.wait()
            for frame in frames:
                if self._rewound or self._closed:
                    break
                self._cursor = frame.seq
                yield frame.text
                at_once += len(frame.text)
                if at_once > _CHARACTERS_AT_ONCE:
                    at_once = 0
                    await asyncio.sleep(0)
