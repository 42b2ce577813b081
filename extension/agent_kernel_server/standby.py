"""`Standby`: what the extension does until an agent is used for the first time.

It listens to kernels without reading what they say, so that a server whose user runs no agent has none of the runtime
in memory. The first word of a kernel, a notebook with a prompt in it, or a request loads the service, in a thread.
Where agents have run before, it is loaded as the server starts: they are likely to run again.
"""

import asyncio
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent_kernel.log.unfinished import needs_opening, was_used
from agent_kernel.runtime.tasks import TaskOwner
from agent_kernel_server.kernels.tap import KERNEL_ACTIONS, EventTap, is_remote, until_known

if TYPE_CHECKING:
    from agent_kernel_server.service import Service

SERVICE_MODULES = ("agent_kernel_server.configuration", "agent_kernel_server.handlers")


class Standby:
    """One per server."""

    def __init__(
        self,
        *,
        log_path: Path,
        kernel_manager: Any,
        event_logger: Any,
        make_service: Callable[[], "Service"],
        on_loaded: Callable[["Service"], None],
    ) -> None:
        """`make_service` is called once `SERVICE_MODULES` are imported, and `on_loaded` before the service is used."""
        self.service: Service | None = None
        self._log_path = log_path
        self._kernels = kernel_manager
        self._event_logger = event_logger
        self._make_service = make_service
        self._on_loaded = on_loaded
        self._tasks = TaskOwner()
        self._loading: asyncio.Task[Service] | None = None
        self._taps: dict[str, EventTap] = {}
        event_logger.add_listener(schema_id=KERNEL_ACTIONS, listener=self._on_kernel_action)

    async def start(self, *, warm_up: bool) -> None:
        """Listen to the kernels that run already, and load the service if the log has something to go on with; with
        `warm_up` also if agents have run before."""
        for kernel_id in self._kernels.list_kernel_ids():
            self._listen(kernel_id)
        if await self.has_open_runs() or (warm_up and await asyncio.to_thread(was_used, self._log_path)):
            self.begin()

    async def has_open_runs(self) -> bool:
        """Whether the log may have an open run, of this server or another one. True also where that isn't known."""
        return await asyncio.to_thread(needs_opening, self._log_path)

    def begin(self) -> None:
        """Load the service in the background, so that it is there when it is needed."""
        if self.service is None:
            self._load_once()

    async def load(self) -> "Service":
        """The service; the first call loads it. Raises what keeps it from being loaded; a later call tries again."""
        return self.service if self.service is not None else await asyncio.shield(self._load_once())

    def _load_once(self) -> "asyncio.Task[Service]":
        if self._loading is None or self._loading.done():
            self._loading = self._tasks.spawn(self._load(), "loading of Agent Kernel")
        return self._loading

    async def _load(self) -> "Service":
        for name in SERVICE_MODULES:
            await asyncio.to_thread(import_module, name)
        service = self._make_service()
        taps, self._taps = self._taps, {}
        service.start(taps)
        self._on_loaded(service)
        self.service = service
        return service

    def _listen(self, kernel_id: str) -> None:
        if self.service is not None:
            self.service.kernels.serve(kernel_id)
            return
        if kernel_id not in self._kernels or kernel_id in self._taps:
            return
        kernel = self._kernels.get_kernel(kernel_id)
        if is_remote(kernel):
            self.begin()  # only a connection of the service's can listen to it
            return
        self._taps[kernel_id] = EventTap(kernel)
        self._taps[kernel_id].wait(self.begin)

    def _forget(self, kernel_id: str) -> None:
        tap = self._taps.pop(kernel_id, None)
        if tap is not None:
            tap.close()

    async def _on_kernel_action(self, logger: Any, schema_id: str, data: dict[str, Any]) -> None:  # noqa: ARG002
        """A listener of Jupyter's `kernel_actions` events. Once the service is there, it listens itself."""
        kernel_id = data.get("kernel_id")
        if self.service is not None or not isinstance(kernel_id, str) or data.get("status") != "success":
            return
        if data.get("action") in ("restart", "shutdown"):
            self._forget(kernel_id)  # its ports may be others now
        if data.get("action") in ("restart", "start"):
            await until_known(self._kernels, kernel_id)
            self._listen(kernel_id)

    async def aclose(self) -> None:
        self._event_logger.remove_listener(schema_id=KERNEL_ACTIONS, listener=self._on_kernel_action)
        await self._tasks.aclose()
        for kernel_id in list(self._taps):
            self._forget(kernel_id)
        if self.service is not None:
            await self.service.aclose()
            self.service = None
