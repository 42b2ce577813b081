"""Counts callers that are using a conversation's run, so that it is not suspended under them."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager


class Leases:
    """For one event loop. True while a lease is held."""

    __slots__ = ("_count", "_over")

    def __init__(self) -> None:
        self._count = 0
        self._over: asyncio.Future[None] | None = None

    def __bool__(self) -> bool:
        return self._count > 0

    @contextmanager
    def lease(self) -> Iterator[None]:
        self._count += 1
        try:
            yield
        finally:
            self._count -= 1
            if self._count == 0 and self._over is not None:
                self._over.set_result(None)
                self._over = None

    async def over(self) -> None:
        """Wait until no lease is held."""
        while self:
            if self._over is None:
                self._over = asyncio.get_running_loop().create_future()
            await asyncio.shield(self._over)
