"""When somebody has asked Jupyter to interrupt a kernel: so the kernel tells that from any other signal."""

import asyncio
import time

LATE_SECONDS = 0.5
"""How much later than the signal itself Jupyter may tell of it."""


class Interrupts:
    """Those of one kernel."""

    def __init__(self) -> None:
        self._last = float("-inf")
        self._news = asyncio.Event()

    def heard(self) -> None:
        """Jupyter has interrupted the kernel."""
        self._last = time.monotonic()
        self._news.set()

    async def came_within(self, seconds: float) -> bool:
        """Whether there was one in the last so many seconds, or is one in a moment."""
        since = time.monotonic() - seconds - LATE_SECONDS
        self._news.clear()
        if self._last < since:
            try:
                async with asyncio.timeout(LATE_SECONDS):
                    await self._news.wait()
            except TimeoutError:
                return False
        return True
