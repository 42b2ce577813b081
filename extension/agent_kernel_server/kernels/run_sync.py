"""RunSync keeps a kernel's `Run` objects up to date with the runs that the runtime carries out, to their record."""

import asyncio
import math
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from weakref import WeakValueDictionary

import orjson

from agent_kernel.errors import KernelGone
from agent_kernel.execution.link import KernelLink, RequestFailed, Unreachable
from agent_kernel.protocol.kernel import FinishRun, Reply, Request, ResumeRun, UpdateRun
from agent_kernel.protocol.views import RunView
from agent_kernel.runtime.clients.feed import Subscription
from agent_kernel.runtime.conversation import Conversation
from agent_kernel.runtime.runs.queue import RunHandle
from agent_kernel.runtime.settings import RunSpec
from agent_kernel.runtime.tasks import TaskOwner
from agent_kernel.tools.builtin.declarations import ASK_USER
from agent_kernel_server.kernels.shared import Shared

STATE_SECONDS = 0.25
"""A run's state is sent to the kernel at most this often."""
DOCUMENT_SECONDS = 1.0
"""How long after an event the text for saved notebooks may be older than it, unless somebody may have to act."""
PIECES = ('"type":"token"', '"type":"reasoning"')
"""What a frame has that says nothing of how a run stands."""
WAITS = ('"type":"approval_request"', '"type":"run"', '"status":"unknown"', f'"tool_name":"{ASK_USER}"')
"""What a frame has after which a run may wait for a person."""


class RunSync:
    """One per kernel, over all its processes."""

    def __init__(
        self,
        kernel_id: str,
        link: Callable[[], KernelLink],
        page_is_open: Callable[[], Awaitable[bool]],
        shared: Shared,
        tasks: TaskOwner,
    ) -> None:
        """`link` gives the link to the kernel's present process."""
        self.runs: dict[str, Conversation] = {}
        """The conversations of the runs that go on, by run."""
        self._kernel_id = kernel_id
        self._link = link
        self._page_is_open = page_is_open
        self._records = shared.records
        self._documents = shared.documents
        self._tasks = tasks
        self._log = shared.log
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def sync(
        self, spec: RunSpec, conversation: Conversation, handle: RunHandle, link: KernelLink, *, again: bool = False
    ) -> None:
        """Keep the kernel up to date with an open run until it ends. `again`: a run whose end the kernel was sent goes
        on."""
        # It may be tried again before the kernel was sent its end, which must not come after the news that it goes on.
        async with self._locks.setdefault(spec.run_id, asyncio.Lock()):
            if again:
                self._records.on_start(spec, conversation)
                await self.notify(link, ResumeRun(run_id=spec.run_id))
            await self._sync(spec, conversation, handle, link)
        await self._records.place(spec.run_id, partial(self._is_open, spec))

    async def _sync(self, spec: RunSpec, conversation: Conversation, handle: RunHandle, link: KernelLink) -> None:
        self.runs[spec.run_id] = conversation
        followed = [conversation.subscribe() for _ in range(2)]
        work = (self._send_updates(spec.run_id, followed[0], link), self._put_progress(spec, followed[1]))
        updates = [self._tasks.spawn(one, f"state of {spec.run_id}") for one in work]
        try:
            result = await handle.wait()
        finally:
            del self.runs[spec.run_id]
            for subscription, update in zip(followed, updates, strict=True):
                subscription.close()
                update.cancel()
            await asyncio.gather(*updates, return_exceptions=True)
        path = await self._notebook_of(spec)
        cleared = (run := self._records.find_open(spec.run_id)) is not None and run.cleared
        await self._records.keep(spec, result, path)
        placed = self._documents.are_open(path, self._kernel_id)
        keeps_cards = result.run.error is not None and result.run.error.code == "LLM_ERROR"
        finish = FinishRun(result=replace(result, cleared=cleared, placed=placed and not keeps_cards))
        if isinstance(link.gone, Unreachable):
            # Sent over a new link, it arrives when the kernel is back, and a cell that waits for the run goes on.
            self._tasks.spawn(self.notify(self._link(), finish), f"end of {spec.run_id}")
        else:
            await self.notify(link, finish)
        # After the kernel knows: who sees the record may ask for the result in the next cell.
        await self._documents.put_end(spec.run_id, path, self._kernel_id)

    async def _notebook_of(self, spec: RunSpec) -> str | None:
        return await self._records.paths.notebook_of(self._kernel_id, (spec.cell_id,), spec.notebook_path)

    async def _is_open(self, spec: RunSpec) -> bool:
        """Whether a page has the run's notebook open, with a document of its own to save."""
        is_there = self._documents.are_open(await self._notebook_of(spec), self._kernel_id)
        return is_there or await self._page_is_open()

    async def _put_progress(self, spec: RunSpec, subscription: Subscription) -> None:
        """Keep the documents up to date that show the run."""
        if spec.widget_model_id is None:
            return
        put = partial(self._documents.put_progress, spec.run_id, partial(self._notebook_of, spec), self._kernel_id)
        loop = asyncio.get_running_loop()
        await put()
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(None) as due:
                    async for frame in subscription:
                        if not any(piece in frame for piece in PIECES):
                            seconds = 0.0 if any(wait in frame for wait in WAITS) else DOCUMENT_SECONDS
                            due.reschedule(min(due.when() or math.inf, loop.time() + seconds))
                return
            await put()

    async def _send_updates(self, run_id: str, subscription: Subscription, link: KernelLink) -> None:
        async for frame in subscription:
            if '"run":{' not in frame:
                continue  # a token costs no parsing
            event = orjson.loads(frame)
            if event.get("type") == "run" and event["run"]["run_id"] == run_id:
                await asyncio.sleep(STATE_SECONDS)
                await self.notify(link, UpdateRun(run=RunView.model_validate(event["run"])))

    async def notify(self, link: KernelLink, request: Request[Reply]) -> None:
        """Send the kernel something that it can do without."""
        try:
            await link.request(request)
        except (KernelGone, RequestFailed) as error:
            self._log.debug("The kernel %s did not get a %s: %s", self._kernel_id, type(request).__name__, error)
