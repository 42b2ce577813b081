"""RunSync keeps a kernel's `Run` objects up to date with the runs that its runtime carries out, to their record."""

import asyncio
from collections.abc import Awaitable, Callable
from logging import Logger
from typing import Any
from weakref import WeakValueDictionary

import orjson

from agent_kernel.errors import KernelGone
from agent_kernel.runtime.conversation import Conversation
from agent_kernel.runtime.runs.queue import RunHandle
from agent_kernel.runtime.settings import RunSpec
from agent_kernel.runtime.tasks import TaskOwner
from agent_kernel_server.kernels.link import KernelLink, RequestRefused, Unreachable
from agent_kernel_server.kernels.messages import finished_result
from agent_kernel_server.notebooks import RecordKeeper

STATE_SECONDS = 0.25
"""The kernel's `Run` hears of a run's state at most this often."""


class RunSync:
    """One per kernel, over all its lives."""

    def __init__(
        self,
        kernel_id: str,
        link: Callable[[], KernelLink],
        page_is_open: Callable[[], Awaitable[bool]],
        records: RecordKeeper,
        tasks: TaskOwner,
        log: Logger,
    ) -> None:
        """`link` gives the link to the kernel's present life."""
        self.runs: dict[str, Conversation] = {}
        """Those that go on."""
        self._kernel_id = kernel_id
        self._link = link
        self._page_is_open = page_is_open
        self._records = records
        self._tasks = tasks
        self._log = log
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def follow(
        self, spec: RunSpec, conversation: Conversation, handle: RunHandle, link: KernelLink, *, again: bool = False
    ) -> None:
        """Follow a run to its end. `again`: the kernel has heard that it ended, and hears first that it goes on."""
        # It may be tried again before the kernel has heard of its end, which must not come after that.
        async with self._turns.setdefault(spec.run_id, asyncio.Lock()):
            if again:
                await self.tell(link, "again", {"run_id": spec.run_id})
            await self._follow(spec, conversation, handle, link)
        await self._records.place(spec.widget_model_id, self._page_is_open)

    async def _follow(self, spec: RunSpec, conversation: Conversation, handle: RunHandle, link: KernelLink) -> None:
        self.runs[spec.run_id] = conversation
        self._records.open_runs.begun(spec, conversation)
        subscription = conversation.subscribe()
        feeder = self._tasks.spawn(self._feed_state(spec.run_id, subscription, link), f"state of {spec.run_id}")
        try:
            result = await handle.wait()
        finally:
            del self.runs[spec.run_id]
            subscription.close()
            feeder.cancel()
            await asyncio.gather(feeder, return_exceptions=True)
        await self._records.keep(spec, result, await self._notebook_of(spec))
        self._records.open_runs.ended(spec)
        finish = {"result": finished_result(result, cleared=self._records.is_cleared(spec.run_id))}
        if isinstance(link.gone, Unreachable):
            # Asked anew, it is sent when the kernel is back, and a cell that waits for the run goes on.
            self._tasks.spawn(self.tell(self._link(), "finish", finish), f"end of {spec.run_id}")
        else:
            await self.tell(link, "finish", finish)

    async def _notebook_of(self, spec: RunSpec) -> str | None:
        return await self._records.notebook_path(self._kernel_id, (spec.cell_id,), spec.notebook_path)

    async def _feed_state(self, run_id: str, subscription: Any, link: KernelLink) -> None:
        """Keep the kernel's `Run` up to date with the run's own events."""
        async for frame in subscription:
            if '"run":{' not in frame:
                continue  # a token costs no parsing
            event = orjson.loads(frame)
            if event.get("type") == "run" and event["run"]["run_id"] == run_id:
                await self.tell(link, "state", {"run": event["run"]})
                await asyncio.sleep(STATE_SECONDS)

    async def tell(self, link: KernelLink, op: str, fields: dict[str, Any]) -> None:
        """Tell the kernel something that it can do without."""
        try:
            await link.control(op, fields)
        except (KernelGone, RequestRefused) as error:
            self._log.debug("The kernel %s was not told %r: %s", self._kernel_id, op, error)
