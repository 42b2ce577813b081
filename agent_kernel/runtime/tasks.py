"""TaskOwner keeps tasks that outlive the call that started them, and logs their failures; `read` keeps the parsing of
long texts off the event loop."""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from contextvars import copy_context
from typing import Any, TypeVar

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


async def read(text: str, work: Callable[[], T]) -> T:
    """The result of `work` on a model's text, in a thread where the text is long."""
    return work() if len(text) <= _LONG else await asyncio.to_thread(work)
