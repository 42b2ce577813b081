"""TaskOwner keeps tasks that outlive the call that started them, and logs their failures; `Batcher` batches small
writes to the log by interval; `in_thread_if_long` keeps the parsing of long texts off the event loop."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from contextvars import copy_context
from typing import Any, Generic, TypeVar

T = TypeVar("T")
logger = logging.getLogger(__name__)
_LONG = 4_000
"""Characters. Text of this length is parsed in 50 ms at most, nearly always in less than one."""


class TaskOwner:
    """Tasks run with the owner's context variables, not with their caller's: a connection that a task opens keeps its
    context alive, and with it all that a request or a run had stored there."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()
        self.context = copy_context()

    def spawn(self, work: Coroutine[Any, Any, T], name: str) -> asyncio.Task[T]:
        context = self.context.copy()
        task = asyncio.create_task(work, name=name, context=context)
        self._tasks.add(task)
        task.add_done_callback(self._ended, context=context)
        return task

    async def aclose(self) -> None:
        """Cancel the tasks that still run and wait for their end."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            logger.error("The task %s failed", task.get_name(), exc_info=task.exception())


class Batcher(Generic[T]):
    """The first item is written after `first` seconds, then the items of each interval of `seconds` together."""

    def __init__(self, write: Callable[[list[T]], Awaitable[None]], seconds: float, *, first: float = 0.0) -> None:
        self._write = write
        self._seconds = seconds
        self._first = first
        self._items: list[T] = []
        self._ended = asyncio.Event()
        self._writer: asyncio.Task[None] | None = None

    def add(self, item: T) -> None:
        self._items.append(item)
        if self._writer is None:
            self._writer = asyncio.create_task(self._write_all(), name="agent-kernel-batch")

    async def drain(self) -> list[T]:
        """Stop, and return the unwritten items for the caller's next commit. Raises the error of a failed write.

        If the caller is cancelled, what is being written is written nevertheless: drain once more."""
        self._ended.set()
        if self._writer is not None:
            await asyncio.wait({self._writer})
            self._writer.result()
        return self._items

    async def aclose(self) -> None:
        """Stop, and write the remaining items. Raises the error of a failed write."""
        if rest := await self.drain():
            await self._write(rest)

    async def _write_all(self) -> None:
        pause = self._first
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._ended.wait()
            if self._ended.is_set():
                return
            if not self._items:
                self._writer = None
                return
            items, self._items = self._items, []
            await self._write(items)
            pause = self._seconds


async def in_thread_if_long(text: str, work: Callable[[], T]) -> T:
    """The result of `work` on a model's text, in a thread where the text is long."""
    return work() if len(text) <= _LONG else await asyncio.to_thread(work)
