"""Reading what a model wrote takes time that grows with it: long texts are read in a thread, beside the event loop."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterable
from typing import TypeVar

T = TypeVar("T")
_LONG = 4_000
"""Characters. A call of that many is read in 50 ms at most, nearly all in less than one."""
_SLICE_SECONDS = 0.02


async def read(text: str, work: Callable[[], T]) -> T:
    """What `work` makes of a text, in a thread where it is long."""
    return work() if len(text) <= _LONG else await asyncio.to_thread(work)


async def in_slices(items: Iterable[T]) -> AsyncIterator[T]:
    """The items. Whoever goes through many of them lets others have the event loop now and then."""
    since = time.monotonic()
    for item in items:
        yield item
        if time.monotonic() - since > _SLICE_SECONDS:
            await asyncio.sleep(0)
            since = time.monotonic()
