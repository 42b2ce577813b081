"""Schedules calls on the kernel: one at a time, in order of approval; read-only calls may share a turn."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

READ_ONLY_AT_ONCE = 10


class CallScheduler:
    """A fair reader-writer lock: first come, first served, so a read-only call waits behind an earlier writer.

    For one event loop. A call that is cancelled leaves the queue, or releases its turn.
    """

    def __init__(self) -> None:
        self._readers = 0
        self._writing = False
        self._waiting: deque[tuple[asyncio.Future[None], bool]] = deque()

    @asynccontextmanager
    async def slot(self, read_only: bool) -> AsyncIterator[None]:
        """Wait for a turn and hold it for the block."""
        await self._acquire(read_only)
        try:
            yield
        finally:
            self.release(read_only)

    def take(self, read_only: bool) -> bool:
        """Take a turn if one is free now. The caller gives it back with `release`."""
        if self._waiting or not self._is_free(read_only):
            return False
        self._give(read_only)
        return True

    async def _acquire(self, read_only: bool) -> None:
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        entry = (turn, read_only)
        self._waiting.append(entry)
        self._wake()
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                # The turn was granted at the same moment: pass it on.
                self.release(read_only)
            else:
                self._waiting.remove(entry)
                self._wake()
            raise

    def release(self, read_only: bool) -> None:
        if read_only:
            self._readers -= 1
        else:
            self._writing = False
        self._wake()

    def _wake(self) -> None:
        """Grant turns from the front of the queue, as many as may run together."""
        while self._waiting:
            turn, read_only = self._waiting[0]
            if not self._is_free(read_only):
                return
            if turn.cancelled():
                # Its task has not run yet; it removes the entry itself and wakes the next.
                return
            self._waiting.popleft()
            self._give(read_only)
            turn.set_result(None)

    def _is_free(self, read_only: bool) -> bool:
        return not self._writing and (self._readers < READ_ONLY_AT_ONCE if read_only else self._readers == 0)

    def _give(self, read_only: bool) -> None:
        if read_only:
            self._readers += 1
        else:
            self._writing = True
