"""ServedKernels attaches to the server's kernels as they start, and lets go of them as they end.

Jupyter tells of a kernel's death by a callback, and of a start, a restart or a shutdown by an event; neither resolves
anything that waits for the kernel, so the bridge does.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from logging import Logger
from typing import Any

from jupyter_server.gateway.managers import GatewayKernelManager

from agent_kernel.errors import KernelGone
from agent_kernel.protocol.views import ModelsView
from agent_kernel.runtime.conversation import Conversation
from agent_kernel.runtime.runs.queue import RunHandle
from agent_kernel.runtime.runtime import Runtime
from agent_kernel.runtime.settings import RunSpec
from agent_kernel.runtime.tasks import TaskOwner
from agent_kernel_server.kernels.executor import KernelExecutor
from agent_kernel_server.kernels.gateway import GatewayTransport, take_over
from agent_kernel_server.kernels.kernel import ServedKernel
from agent_kernel_server.kernels.messages import KeptChange
from agent_kernel_server.kernels.transport import Listener, Transport, ZmqTransport
from agent_kernel_server.notebooks import RecordKeeper

KERNEL_ACTIONS = "https://events.jupyter.org/jupyter_server/kernel_actions/v1"
START_LOOKS, START_PAUSE = 100, 0.05
"""A kernel's start is told before it can be looked up: how often it is looked for, and the seconds in between."""


class ServedKernels:
    def __init__(
        self,
        runtime: Callable[[], Awaitable[Runtime]],
        list_models: Callable[[], Awaitable[ModelsView]],
        is_shown: Callable[[str], bool],
        records: RecordKeeper,
        kernel_manager: Any,
        log: Logger,
        gateway_seconds: float,
    ) -> None:
        self._runtime = runtime
        self._list_models = list_models
        self._is_shown = is_shown
        self._records = records
        self._manager = kernel_manager
        self._log = log
        self._gateway_seconds = gateway_seconds
        self._tasks = TaskOwner()
        self._attached: dict[str, ServedKernel] = {}

    def attached(self) -> list[str]:
        return sorted(self._attached)

    def active_runs(self) -> int:
        return sum(kernel.active_runs for kernel in self._attached.values())

    def knows(self, kernel_id: str) -> bool:
        return kernel_id in self._manager

    async def executor(self, conversation: Conversation, run_id: str) -> KernelExecutor | None:
        """ToolExecutor in the conversation's kernel; `None` where it has none. Raises `KernelGone`."""
        if conversation.kernel_id is None:
            return None
        attached = await self._find(conversation.kernel_id)
        if attached is None:
            raise KernelGone("The kernel of this conversation is not running any more.")
        return await attached.executor(conversation, run_id)

    async def executor_after_restart(self, conversation: Conversation, spec: RunSpec) -> KernelExecutor | None:
        """ToolExecutor for a run that an earlier server left open; `None` where its kernel is gone, or was started
        anew."""
        attached = await self._find(conversation.kernel_id or "")
        declared_by_a_cell = spec.widget_model_id is not None
        if attached is None or (declared_by_a_cell and not await attached.still_has(spec.run_id)):
            return None
        return await attached.executor(conversation, spec.run_id, spec)

    async def changes(self, kernel_id: str) -> Sequence[KeptChange]:
        """See `ServedKernel.changes`; none of a kernel that is not there."""
        attached = await self._find(kernel_id)
        return await attached.changes() if attached is not None else ()

    async def _find(self, kernel_id: str) -> ServedKernel | None:
        """The kernel's owner, also for one at a gateway, which outlives a server that forgets it."""
        attached = self.attach(kernel_id)
        if attached is None and await take_over(self._manager, kernel_id, self._log):
            attached = self.attach(kernel_id)
        return attached

    def follow(self, spec: RunSpec, conversation: Conversation, handle: RunHandle) -> None:
        """See `ServedKernel.follow`; nothing for a conversation without a kernel."""
        attached = self._attached.get(conversation.kernel_id or "")
        if attached is not None:
            attached.follow(spec, conversation, handle)

    def attach_running(self) -> None:
        """Attach to the kernels that run already, such as those that were started before the extension."""
        for kernel_id in self._manager.list_kernel_ids():
            self.attach(kernel_id)

    def attach(self, kernel_id: str) -> ServedKernel | None:
        """The owner of this kernel's link; `None` for a kernel that this server does not know."""
        attached = self._attached.get(kernel_id)
        if attached is not None or kernel_id not in self._manager:
            return attached
        kernel = self._manager.get_kernel(kernel_id)
        attached = ServedKernel(
            kernel_id,
            lambda listener: self._reach(kernel, listener),
            self._runtime,
            self._list_models,
            self._is_shown,
            self._records,
            self._log,
            lambda reason: self._lost(kernel_id, reason),
        )
        self._attached[kernel_id] = attached
        kernel.add_restart_callback(attached.died, "restart")
        kernel.add_restart_callback(lambda: self._lost(kernel_id, "The kernel died."), "dead")
        return attached

    def _reach(self, kernel: Any, listener: Listener) -> Transport:
        if isinstance(kernel, GatewayKernelManager):
            return GatewayTransport(kernel, listener, self._log, self._gateway_seconds)
        return ZmqTransport(kernel, listener, self._log)

    async def on_kernel_action(self, logger: Any, schema_id: str, data: dict[str, Any]) -> None:  # noqa: ARG002
        """A listener of Jupyter's `kernel_actions` events."""
        kernel_id = data.get("kernel_id")
        if not isinstance(kernel_id, str):
            return
        attached = self._attached.get(kernel_id)
        match data.get("action"), data.get("status") == "success":
            case "start", True:
                await self._attach_started(kernel_id)
            case "interrupt", True if attached is not None:
                attached.interrupts.heard()
            case "restart", success if attached is not None:
                attached.restarted(success=success)
            case "shutdown", True:
                await self._release(kernel_id, "The kernel was shut down.", by_user=True)

    async def _attach_started(self, kernel_id: str) -> None:
        for _ in range(START_LOOKS):
            if kernel_id in self._manager:
                break
            await asyncio.sleep(START_PAUSE)
        self.attach(kernel_id)

    def _lost(self, kernel_id: str, reason: str) -> None:
        """The kernel died, and could not be started again."""
        self._tasks.spawn(self._release(kernel_id, reason, by_user=False), f"release of {kernel_id}")

    async def _release(self, kernel_id: str, reason: str, *, by_user: bool) -> None:
        attached = self._attached.pop(kernel_id, None)
        if attached is not None:
            await attached.aclose(reason, by_user=by_user)

    async def aclose(self) -> None:
        await self._tasks.aclose()
        for kernel_id in list(self._attached):
            await self._release(kernel_id, "The server was shut down.", by_user=True)
