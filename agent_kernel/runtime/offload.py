"""Moves the parsing of long model output into a thread, off the event loop."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterable
from typing import TypeVar

T = TypeVar("T")
_LONG = 4_000
"""Characters. Text of this length is parsed in 50 ms at most, nearly always in less than one."""
_SLICE_SECONDS = 0.02


async def read(text: str, work: Callable[[], T]) -> T:
    """The result of `work` on a text, in a thread where the text is long."""
    return work() if len(text) <= _LONG else await asyncio.to_thread(work)


async def in_slices(items: Iterable[T]) -> AsyncIterator[T]:
    """Yield the items, and now and then give other tasks the event loop."""
    since = time.monotonic()
    for item in items:
        yield item
        if time.monotonic() - since > _SLICE_SECONDS:
            await asyncio.sleep(0)
            since = time.monotonic()
