"""ServedKernels serves the server's kernels from their start to their end.

Jupyter reports a kernel's death by a callback, and a start, a restart or a shutdown by an event. Neither ends what
waits for the kernel, so this does.
"""

import asyncio
from collections.abc import Sequence
from typing import Any

from jupyter_server.gateway.managers import GatewayKernelManager

from agent_kernel.errors import KernelGone
from agent_kernel.execution.notebook_executor import NotebookExecutor
from agent_kernel.protocol.lists import ListedRun
from agent_kernel.runtime.conversation import Conversation
from agent_kernel.runtime.runs.queue import RunHandle
from agent_kernel.runtime.settings import RunSpec
from agent_kernel.runtime.tasks import TaskOwner
from agent_kernel_server.kernels.gateway import GatewayTransport, take_over
from agent_kernel_server.kernels.idle import IdleKernels
from agent_kernel_server.kernels.served_kernel import ServedKernel
from agent_kernel_server.kernels.shared import Shared
from agent_kernel_server.kernels.transport import Listener, Transport
from agent_kernel_server.kernels.zmq import ZmqTransport

KERNEL_ACTIONS = "https://events.jupyter.org/jupyter_server/kernel_actions/v1"
"""The id of Jupyter's events of kernels that start and end."""
START_TRIES, START_PAUSE = 100, 0.05
"""A kernel's start is reported before it can be looked up: how often that is tried, and the seconds in between."""


class ServedKernels:
    def __init__(
        self, shared: Shared, kernel_manager: Any, gateway_seconds: float, waiting_seconds: float | None
    ) -> None:
        """`gateway_seconds` is how long a kernel's gateway may be unreachable before its runs end; `waiting_seconds`:
        see `IdleKernels`."""
        self._shared = shared
        self._manager = kernel_manager
        self._gateway_seconds = gateway_seconds
        self._tasks = TaskOwner()
        self._kernels: dict[str, ServedKernel] = {}
        self.idle = IdleKernels(kernel_manager, self._open_runs, waiting_seconds)

    def kernel_ids(self) -> list[str]:
        return sorted(self._kernels)

    def active_runs(self) -> int:
        return sum(kernel.active_runs for kernel in self._kernels.values())

    def knows(self, kernel_id: str) -> bool:
        return kernel_id in self._manager

    async def executor_of(self, kernel_id: str, run_id: str, notebook_path: str | None) -> NotebookExecutor:
        """See `ServedKernel.executor_of`. Raises `KernelGone`."""
        kernel = await self.find(kernel_id)
        if kernel is None:
            raise KernelGone("The kernel is not running any more.")
        return await kernel.executor_of(run_id, notebook_path)

    async def executor_for(self, conversation: Conversation, spec: RunSpec) -> NotebookExecutor | None:
        """For a run of this conversation, also one that an earlier server left open; `None` where its kernel is gone,
        or was started again since a cell there declared the run."""
        kernel = await self.find(conversation.kernel_id or "")
        declared_by_a_cell = spec.widget_model_id is not None
        if kernel is None or (declared_by_a_cell and not await kernel.has_run(spec.run_id)):
            return None
        return await kernel.executor(conversation, spec)

    async def find(self, kernel_id: str) -> ServedKernel | None:
        """Also a kernel at a gateway, which outlives the server that started it."""
        kernel = self.serve(kernel_id)
        if kernel is None and await take_over(self._manager, kernel_id, self._shared.log):
            kernel = self.serve(kernel_id)
        return kernel

    def sync_run(self, spec: RunSpec, conversation: Conversation, handle: RunHandle) -> None:
        """See `ServedKernel.sync_run`; nothing for a conversation without a kernel."""
        kernel = self._kernels.get(conversation.kernel_id or "")
        if kernel is not None:
            kernel.sync_run(spec, conversation, handle)

    def _is_any_busy(self) -> bool:
        return any(kernel.is_busy for kernel in self._kernels.values())

    async def _open_runs(self) -> Sequence[ListedRun]:
        return await (await self._shared.runtime()).list_runs(ended=0)

    def serve_running(self) -> None:
        """Serve the kernels that run already, and keep those from being culled whose agents work."""
        self._tasks.spawn(self.idle.watch(self._is_any_busy), "activity of kernels")
        for kernel_id in self._manager.list_kernel_ids():
            self.serve(kernel_id)

    def serve(self, kernel_id: str) -> ServedKernel | None:
        """The kernel, which is served from here on; `None` for one that this server does not know."""
        served = self._kernels.get(kernel_id)
        if served is not None or kernel_id not in self._manager:
            return served
        kernel = self._manager.get_kernel(kernel_id)
        served = self._kernels[kernel_id] = ServedKernel(
            kernel_id,
            lambda listener: self._open_transport(kernel, listener),
            self._shared,
            lambda reason: self._lost(kernel_id, reason),
            kernel.interrupt_kernel,
            lambda: self.idle.why_culled(kernel_id),
        )
        kernel.add_restart_callback(served.died, "restart")
        kernel.add_restart_callback(lambda: self._lost(kernel_id, "The kernel died."), "dead")
        return served

    def _open_transport(self, kernel: Any, listener: Listener) -> Transport:
        if isinstance(kernel, GatewayKernelManager):
            return GatewayTransport(kernel, listener, self._shared.log, self._gateway_seconds)
        return ZmqTransport(kernel, listener, self._shared.log)

    async def on_kernel_action(self, logger: Any, schema_id: str, data: dict[str, Any]) -> None:  # noqa: ARG002 -- Jupyter's signature
        """A listener of Jupyter's `kernel_actions` events."""
        kernel_id = data.get("kernel_id")
        if not isinstance(kernel_id, str):
            return
        kernel = self._kernels.get(kernel_id)
        match data.get("action"), data.get("status") == "success":
            case "start", True:
                await self._serve_started(kernel_id)
            case "interrupt", True if kernel is not None:
                kernel.interrupts.record()
            case "restart", success if kernel is not None:
                kernel.restarted(success=success)
            case "shutdown", True:
                culled = self.idle.why_culled(kernel_id)
                await self._release(kernel_id, culled or "The kernel was shut down.", by_user=culled is None)

    async def _serve_started(self, kernel_id: str) -> None:
        for _ in range(START_TRIES):
            if self.serve(kernel_id) is not None:
                return
            await asyncio.sleep(START_PAUSE)

    def _lost(self, kernel_id: str, reason: str) -> None:
        """The kernel died, and could not be started again."""
        self._tasks.spawn(self._release(kernel_id, reason, by_user=False), f"release of {kernel_id}")

    async def _release(self, kernel_id: str, reason: str, *, by_user: bool) -> None:
        kernel = self._kernels.pop(kernel_id, None)
        if kernel is not None:
            await kernel.aclose(reason, by_user=by_user)

    async def aclose(self) -> None:
        await self._tasks.aclose()
        for kernel_id in list(self._kernels):
            await self._release(kernel_id, "The server was shut down.", by_user=True)
