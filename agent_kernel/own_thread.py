"""Runs what may wait for ever, as reading a file may, in a thread of its own. Imports next to nothing itself."""

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from typing import TypeVar

T = TypeVar("T")


async def in_own_thread(work: Callable[[], T]) -> T:
    """The result of `work`, in a daemon thread.

    A drive that is gone never answers. In the pool of `asyncio.to_thread` six such threads would hold up all runs of a
    server on two cores, and the end of the process with them; here only whoever waits is held up, until cancelled.
    """
    loop = asyncio.get_running_loop()
    result: asyncio.Future[T] = loop.create_future()
    context = copy_context()

    def tell(settle: Callable[[], None]) -> None:
        if not result.done():  # else whoever waited was cancelled
            settle()

    def run() -> None:
        settle: Callable[[], None]
        try:
            settle = partial(result.set_result, context.run(work))
        except BaseException as error:  # noqa: BLE001 -- it is raised where the result is awaited
            settle = partial(result.set_exception, error)
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(tell, settle)

    threading.Thread(target=run, name="agent-kernel-own", daemon=True).start()
    return await result
