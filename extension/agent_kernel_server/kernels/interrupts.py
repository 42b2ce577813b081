"""When Jupyter was asked to interrupt a kernel, so that the kernel can tell that from any other signal."""

import asyncio
import time

LATE_SECONDS = 0.5
"""How much later than the signal itself Jupyter's event may come."""


class Interrupts:
    """The interrupts of one kernel."""

    def __init__(self) -> None:
        self._last = float("-inf")
        self._recorded = asyncio.Event()

    def record(self) -> None:
        """Jupyter has interrupted the kernel."""
        self._last = time.monotonic()
        self._recorded.set()

    async def any_within(self, seconds: float) -> bool:
        """Whether there was one in the last so many seconds, or is one in a moment."""
        since = time.monotonic() - seconds - LATE_SECONDS
        self._recorded.clear()
        if self._last < since:
            try:
                async with asyncio.timeout(LATE_SECONDS):
                    await self._recorded.wait()
            except TimeoutError:
                return False
        return True
