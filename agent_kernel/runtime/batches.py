"""Batches small writes to the log by interval."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Batcher(Generic[T]):
    """The first item is written after `first` seconds, then the items of each interval of `seconds` together."""

    def __init__(self, write: Callable[[list[T]], Awaitable[None]], seconds: float, *, first: float = 0.0) -> None:
        self._write = write
        self._seconds = seconds
        self._first = first
        self._items: list[T] = []
        self._draining = False
        self._resume_at = 0.0
        """When the interval since the last write ends, by the event loop's clock."""
        self._due: asyncio.TimerHandle | None = None
        self._flusher: asyncio.Task[None] | None = None
        """Writes, or has failed to write: nothing is written after that."""

    def add(self, item: T) -> None:
        self._items.append(item)
        if self._due is None and self._flusher is None and not self._draining:
            # A timer, because short output is drained before a task would have run.
            self._flush_at(max(asyncio.get_running_loop().time() + self._first, self._resume_at))

    async def drain(self) -> list[T]:
        """Stop, and return the unwritten items for the caller's next commit. Raises the error of a failed write.

        If the caller is cancelled, what is being written is written nevertheless: drain once more."""
        self._draining = True
        if self._due is not None:
            self._due.cancel()
        if (flusher := self._flusher) is not None:
            await asyncio.wait((flusher,))
            flusher.result()
        return self._items

    async def aclose(self) -> None:
        """Stop, and write the remaining items. Raises the error of a failed write."""
        rest = await self.drain()
        if rest:
            await self._write(rest)

    def _flush_at(self, when: float) -> None:
        self._due = asyncio.get_running_loop().call_at(when, self._start)

    def _start(self) -> None:
        self._due = None
        self._flusher = asyncio.create_task(self._flush(), name="agent-kernel-batch")

    async def _flush(self) -> None:
        items, self._items = self._items, []
        await self._write(items)
        self._flusher = None
        self._resume_at = asyncio.get_running_loop().time() + self._seconds
        if self._items and not self._draining:
            self._flush_at(self._resume_at)
