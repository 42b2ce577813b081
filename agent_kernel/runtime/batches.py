"""Small things on their way to the log: what arrives within one interval becomes one commit."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Batcher(Generic[T]):
    """The first item is written after `first` seconds; the next ones wait until `seconds` have passed and go
    together."""

    def __init__(self, write: Callable[[list[T]], Awaitable[None]], seconds: float, *, first: float = 0.0) -> None:
        self._write = write
        self._seconds = seconds
        self._first = first
        self._items: list[T] = []
        self._closing = asyncio.Event()
        self._draining = False
        self._due: asyncio.TimerHandle | None = None
        self._flusher: asyncio.Task[None] | None = None

    def add(self, item: T) -> None:
        self._items.append(item)
        if self._due is None and (self._flusher is None or self._flusher.done()):
            # A timer, because what is short is drained before a task would be of use.
            self._due = asyncio.get_running_loop().call_later(self._first, self._start)

    async def drain(self) -> list[T]:
        """End, and return what is not written yet, for the caller's next commit. Raises what a write raised."""
        self._draining = True
        self._closing.set()
        if self._due is not None:
            self._due.cancel()
        if self._flusher is not None:
            await self._flusher
        return self._items

    async def aclose(self) -> None:
        """End, and write what is left. Raises what a write raised."""
        rest = await self.drain()
        if rest:
            await self._write(rest)

    def _start(self) -> None:
        self._due = None
        self._flusher = asyncio.create_task(self._flush_until_empty(), name="agent-kernel-batch")

    async def _flush_until_empty(self) -> None:
        while self._items and not self._draining:
            items, self._items = self._items, []
            await self._write(items)
            await self._pause(self._seconds)

    async def _pause(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._closing.wait()
        except TimeoutError:
            return
