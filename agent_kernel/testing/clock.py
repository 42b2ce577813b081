"""A clock that a test advances."""

import asyncio
import heapq
from itertools import count


class VirtualClock:
    """A clock for retries and budgets. By default a sleep ends at once and advances the time; with `auto=False` it
    waits for `advance`. `slept` lists the seconds of all sleeps."""

    def __init__(self, start: float = 1_750_000_000.0, *, auto: bool = True) -> None:
        self._now = start
        self._auto = auto
        self._order = count()
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self.slept: list[float] = []

    def now(self) -> float:
        """Seconds since the Unix epoch."""
        return self._now

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        if self._auto:
            self._now += max(0.0, seconds)
            await asyncio.sleep(0)
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self._now + seconds, next(self._order), future))
        await future

    @property
    def sleepers(self) -> int:
        """How many sleeps are waiting for `advance`."""
        return sum(not future.done() for _, _, future in self._sleepers)

    def advance(self, seconds: float) -> None:
        """Advance the time and wake, in order, every sleep that is over by then."""
        self._now += seconds
        while self._sleepers and self._sleepers[0][0] <= self._now:
            future = heapq.heappop(self._sleepers)[2]
            if not future.done():
                future.set_result(None)
