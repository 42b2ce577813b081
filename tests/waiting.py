"""Waits for what happens in other tasks, threads and processes, which tell nobody."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")


async def until(condition: Callable[[], T], seconds: float = 60.0, pause: float = 0.01) -> T:
    """Wait for a condition; its value. With a `pause` of 0 it is looked at in each turn of the event loop. Fails with
    `TimeoutError`."""
    async with asyncio.timeout(seconds):
        while True:
            if value := condition():
                return value
            await asyncio.sleep(pause)


async def look_until(look: Callable[[], Awaitable[T]], what: str = "something", seconds: float = 60.0) -> T:
    """Call an async `look` until it returns something true."""
    try:
        async with asyncio.timeout(seconds):
            while True:
                if seen := await look():
                    return seen
                await asyncio.sleep(0.02)
    except TimeoutError:
        raise AssertionError(f"Waited {seconds:.0f} s for {what}.") from None
