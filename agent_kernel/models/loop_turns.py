"""Lets answers that arrive faster than they are read take turns at the event loop.

A model server next door sends thousands of tokens at once, and several runs may stream at the same time. Reading all
that has arrived before anything else runs would delay every decision on the same loop. So would a wake-up for each
token of a hundred answers.
"""

import asyncio
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from weakref import WeakKeyDictionary

PIECE_BYTES = 16_384
"""Read in well under a millisecond."""
PAUSE_SECONDS = 0.002
"""How much each answer that is read adds to the pause between two reads of one: 500 reads a second, of all answers
together, leave a slow core time for the rest."""
MOST_PAUSE_SECONDS = 0.25
"""Longer ones would be seen as text that halts."""


class LoopTurns:
    """One piece is read in each turn of an event loop, whichever of the answers it belongs to, first come first
    served."""

    def __init__(self) -> None:
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._taken = False
        self._answers = 0

    @contextmanager
    def reading(self) -> Iterator[None]:
        """While an answer is read, or waited for."""
        self._answers += 1
        try:
            yield
        finally:
            self._answers -= 1

    @property
    def pause(self) -> float:
        """The seconds between two reads of one answer, the longer the more are read at once."""
        return min(MOST_PAUSE_SECONDS, PAUSE_SECONDS * self._answers)

    async def take(self) -> None:
        """Return in a turn of the loop in which nobody else does."""
        loop = asyncio.get_running_loop()
        if self._taken:
            turn: asyncio.Future[None] = loop.create_future()
            self._waiting.append(turn)
            await turn
        else:
            self._taken = True
            loop.call_soon(self._pass_on, loop)

    def _pass_on(self, loop: asyncio.AbstractEventLoop) -> None:
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():  # else its reader was cancelled
                turn.set_result(None)
                loop.call_soon(self._pass_on, loop)
                return
        self._taken = False


_of_loops: WeakKeyDictionary[asyncio.AbstractEventLoop, LoopTurns] = WeakKeyDictionary()


def loop_turns() -> LoopTurns:
    """The turns of the running event loop."""
    return _of_loops.setdefault(asyncio.get_running_loop(), LoopTurns())


def pieces(chunk: bytes) -> Iterator[bytes]:
    """The chunk in pieces of at most `PIECE_BYTES`."""
    if len(chunk) <= PIECE_BYTES:
        yield chunk
        return
    for start in range(0, len(chunk), PIECE_BYTES):
        yield chunk[start : start + PIECE_BYTES]
