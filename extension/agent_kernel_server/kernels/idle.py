"""`IdleKernels`: a kernel is not idle while its agent works or waits for a person. Jupyter's culler looks at a kernel's
last activity, and so do others that end idle kernels."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from jupyter_core.utils import ensure_async

from agent_kernel.errors import LogUnavailable
from agent_kernel.protocol.lists import ListedRun
from agent_kernel.record.words import duration

PAUSE_SECONDS = 10.0
"""A kernel's activity is noted so often, and three times in the culler's timeout where that is short."""
CULLED = "Jupyter culled the kernel, which had been idle for {idle} (cull_idle_timeout of this server)."


class IdleKernels:
    def __init__(
        self, kernels: Any, open_runs: Callable[[], Awaitable[Sequence[ListedRun]]], waiting_seconds: float | None
    ) -> None:
        """`kernels`: Jupyter's manager of all kernels. `waiting_seconds`: how long a run that waits for a person keeps
        its kernel; `None`: as long as it waits."""
        self._kernels = kernels
        self._open_runs = open_runs
        self.waiting_seconds = waiting_seconds
        self._waiting: dict[str, float] = {}
        """By kernel, since when none of its runs has worked."""
        self.idle: dict[str, tuple[Any, bool]] = {}
        """By kernel that is kept no longer, its manager, and whether a page was connected when it was last seen."""

    @property
    def _timeout(self) -> float:
        """The culler's; 0 where there is none."""
        return max(0.0, getattr(self._kernels, "cull_idle_timeout", 0))

    async def watch(self, is_any_open: Callable[[], bool]) -> None:
        pause = min(PAUSE_SECONDS, self._timeout / 3 or PAUSE_SECONDS)
        while True:
            await asyncio.sleep(pause)
            if is_any_open():
                with suppress(LogUnavailable):  # it may be readable at the next look
                    await self.note(await self._open_runs())

    async def note(self, runs: Sequence[ListedRun]) -> None:
        """Note the activity of the kernels that have these open runs."""
        now = asyncio.get_running_loop().time()
        working = {run.kernel_id for run in runs if not run.waits_for}
        found = {run.kernel_id for run in runs if run.kernel_id is not None and run.kernel_id in self._kernels}
        self._waiting = {kernel_id: self._waiting.get(kernel_id, now) for kernel_id in found - working}
        self.idle = {}
        for kernel_id in found:
            manager = self._kernels.get_kernel(kernel_id)
            waited = now - self._waiting.get(kernel_id, now)
            if self.waiting_seconds is None or waited <= self.waiting_seconds:
                manager.last_activity = datetime.now(UTC)
            else:
                model = await ensure_async(self._kernels.kernel_model(kernel_id))
                self.idle[kernel_id] = manager, model["connections"] > 0

    def why_culled(self, kernel_id: str) -> str | None:
        """Of a kernel that is shut down, why the culler did that; `None` if it was somebody else. Jupyter does not say:
        this judges as its culler does."""
        manager, is_connected = self.idle.get(kernel_id, (None, False))
        if manager is None or not self._timeout or (is_connected and not self._kernels.cull_connected):
            return None
        seconds = (datetime.now(UTC) - manager.last_activity).total_seconds()
        timeout = manager.kernel_spec.metadata.get("cull_idle_timeout", self._timeout)
        return CULLED.format(idle=duration(1_000 * seconds)) if seconds > timeout else None
