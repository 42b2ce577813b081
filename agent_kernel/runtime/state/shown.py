"""A flag that is set once a page has shown a conversation.

Not an `asyncio.Event`: each conversation in memory has one, and an event takes 800 bytes even without waiters.
"""

import asyncio


class Shown:
    """For one event loop. True once it is set."""

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
        """Wait until it is set."""
        if self._came:
            return
        if self._coming is None:
            self._coming = asyncio.get_running_loop().create_future()
        await asyncio.shield(self._coming)
