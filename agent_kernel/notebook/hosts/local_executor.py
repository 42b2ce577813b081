"""`LocalExecutor`: hands calls from the embedded runtime's thread to the main thread of the same process."""

import asyncio
import contextlib
from typing import Any

from agent_kernel.notebook.context import describe_environment
from agent_kernel.notebook.kernel.environment import notebook_path
from agent_kernel.notebook.kernel.replies import tool_verdict, waiting_behind
from agent_kernel.notebook.kernel.self_client import SelfClient
from agent_kernel.notebook.kernel.state import KernelState
from agent_kernel.own_thread import in_own_thread
from agent_kernel.protocol.calls import ApprovedCall, Outcome, Place, ToolVerdict
from agent_kernel.protocol.file_cards import FileCard
from agent_kernel.protocol.views import OutputView
from agent_kernel.tools.executor import OutputSink

CLAIM_SECONDS = 0.05
"""A main thread that waits for the run claims a call at once. After this time none does, and a message is queued."""

STOP_SECONDS = 2.0
"""How long a cancelled call may take to end."""


class LocalExecutor:
    """The `ToolExecutor` of one run. Its methods are for the runtime's event loop."""

    def __init__(self, state: KernelState, run_id: str, self_client: SelfClient | None) -> None:
        self._state = state
        self._run_id = run_id
        self._self_client = self_client

    async def execute(self, call: ApprovedCall, emit: OutputSink) -> Outcome:
        observer = _LoopObserver(asyncio.get_running_loop(), emit)
        withdrawn = self._state.was_interrupted(self._run_id)
        self._state.mailbox.deposit(call, observer, self._run_id, withdrawn=withdrawn)
        queueing = asyncio.create_task(self._queue_between_cells(call))
        try:
            return await asyncio.shield(observer.outcome)
        except asyncio.CancelledError:
            self._state.mailbox.interrupt(call.approval_id)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(asyncio.shield(observer.outcome), STOP_SECONDS)
            raise
        finally:
            queueing.cancel()
            await asyncio.gather(queueing, return_exceptions=True)

    async def _queue_between_cells(self, call: ApprovedCall) -> None:
        """Where no cell waits for the run, have the call claimed between cells."""
        if self._self_client is None:
            return
        needs_await = self._state.executor.needs_await(call.tool_name, call.arguments_json, self._run_id)
        queued = False
        while True:
            await asyncio.sleep(CLAIM_SECONDS)
            if self._state.mailbox.phase(call.approval_id) != "deposited":
                return
            if not queued or self._self_client.was_aborted():
                self._self_client.queue_take(call.approval_id, needs_await)
                queued = True

    async def interrupt(self, approval_id: str) -> bool:
        return self._state.mailbox.interrupt(approval_id)

    async def tool_verdict(self, tool_name: str, arguments_json: str) -> ToolVerdict:
        return await tool_verdict(self._state, tool_name, arguments_json, self._run_id)

    async def waiting_behind(self, approval_id: str) -> int | None:
        return waiting_behind(self._state, approval_id)

    async def undo(self, approval_id: str) -> None:
        from agent_kernel.notebook.execution.undo import backups

        await in_own_thread(lambda: backups.undo(approval_id))

    async def preview(self, tool_name: str, arguments_json: str, place: Place | None) -> FileCard | None:
        from agent_kernel.notebook.tools import preview_of

        return await in_own_thread(lambda: preview_of(tool_name, arguments_json, place))

    async def read_picture(self, address: str) -> bytes:
        from agent_kernel.notebook.tools import picture_of

        cell_id = self._state.cell_of(self._run_id)
        return await in_own_thread(lambda: picture_of(address, notebook_path(), cell_id))

    async def describe_environment(self) -> str:
        return describe_environment(self._state.shell, notebook_path())


class _LoopObserver:
    """A mailbox observer that forwards to an event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, emit: OutputSink) -> None:
        self._loop = loop
        self._emit = emit
        self.outcome: asyncio.Future[Outcome] = loop.create_future()

    def output(self, _approval_id: str, _index: int, output: OutputView) -> None:
        self._post(self._emit, output)

    def done(self, _approval_id: str, outcome: Outcome, _outputs: int) -> bool:
        self._post(self._settle, outcome)
        return True

    def _post(self, callback: Any, *arguments: Any) -> None:
        # The loop is closed when the process ends.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(callback, *arguments)

    def _settle(self, outcome: Outcome) -> None:
        if not self.outcome.done():
            self.outcome.set_result(outcome)
