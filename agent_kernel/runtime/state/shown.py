"""Whether a page has shown a conversation.

Not an `asyncio.Event`: there is one of these for each conversation in memory, and an event keeps 800 bytes for those
who might wait.
"""

import asyncio


class Shown:
    """For one event loop. True once a page has come."""

    __slots__ = ("_came", "_coming")

    def __init__(self) -> None:
        self._came = False
        self._coming: asyncio.Future[None] | None = None

    def __bool__(self) -> bool:
        return self._came

    def set(self) -> None:
        self._came = True
        if self._coming is not None:
            self._coming.set_result(None)
            self._coming = None

    async def wait(self) -> None:
        """Wait until a page has come."""
        if self._came:
            return
        if self._coming is None:
            self._coming = asyncio.get_running_loop().create_future()
        await asyncio.shield(self._coming)
