"""KernelExecutor runs approved calls in a kernel. A call belongs to one process of the kernel, and ends with it.

A call is deposited by a control request, and claimed on the kernel's main thread: by code that is queued behind the
user's cells, or by a cell that waits for the run. Live outputs come as events; any that are lost are collected.
"""

import asyncio
from collections.abc import Callable
from logging import Logger

from agent_kernel.errors import KernelGone, ToolFailed
from agent_kernel.models.images import NoPicture, decode
from agent_kernel.protocol.calls import ApprovedCall, Outcome, Place, ToolVerdict
from agent_kernel.protocol.file_cards import FileCard
from agent_kernel.protocol.first_prompt import DescribeEnvironment
from agent_kernel.protocol.kernel import GiveVerdict, LocateCall, PreviewCall, ReadPicture, UndoCall
from agent_kernel.tools.executor import OutputSink
from agent_kernel_server.kernels.call import INTERRUPT_SECONDS, KernelCall
from agent_kernel_server.kernels.link import InvalidReply, KernelLink, RequestFailed, RequestRefused
from agent_kernel_server.kernels.live_outputs import AllLiveOutputs

ENVIRONMENT_SECONDS = 3.0
PREVIEW_SECONDS = 2.0
PICTURE_REFUSAL_CHARACTERS = 300


class KernelExecutor:
    """Implements `agent_kernel.tools.executor.ToolExecutor` for a kernel of this server."""

    def __init__(
        self,
        link: Callable[[], KernelLink],
        live_outputs: AllLiveOutputs,
        run_id: str,
        notebook_path: str | None,
        log: Logger,
    ) -> None:
        """`link` gives the link to the kernel's present process; `run_id` is the run whose tools the kernel holds."""
        self._link = link
        self._live_outputs = live_outputs
        self._run_id = run_id
        self._notebook_path = notebook_path
        self._log = log
        self._running: dict[str, KernelCall] = {}

    async def execute(self, call: ApprovedCall, emit: OutputSink) -> Outcome:
        link = self._link()
        try:
            await link.ensure_installed()
            with self._live_outputs.open(call.approval_id, emit) as outputs:
                received = self._live_outputs.take_received()
                kernel_call = KernelCall(call, self._run_id, link, outputs, received)
                self._running[call.approval_id] = kernel_call
                outcome = await self._run(kernel_call, call)
            if kernel_call.outcome_was_sent:
                self._live_outputs.note_received(call.approval_id)
            return outcome
        except RequestRefused as error:
            return Outcome("error", str(error))
        finally:
            self._running.pop(call.approval_id, None)

    async def _run(self, kernel_call: KernelCall, call: ApprovedCall) -> Outcome:
        kernel_call.send()  # here and not in the task, which begins after all that waits in the event loop
        delivery = asyncio.create_task(kernel_call.deliver(), name=f"delivery of {call.approval_id}")
        try:
            return await kernel_call.outcome(delivery)
        except asyncio.CancelledError:
            await kernel_call.stop(self._log)
            raise
        finally:
            delivery.cancel()
            await asyncio.gather(delivery, return_exceptions=True)
            kernel_call.close()

    async def interrupt(self, approval_id: str) -> bool:
        kernel_call = self._running.get(approval_id)
        if kernel_call is None:
            return False
        try:
            async with asyncio.timeout(INTERRUPT_SECONDS):
                return await kernel_call.interrupt()
        except (TimeoutError, KernelGone, RequestFailed) as error:
            self._log.debug("The call %s was not interrupted: %s", approval_id, error)
            return False

    async def tool_verdict(self, tool_name: str, arguments_json: str) -> ToolVerdict:
        link = self._link()
        await link.ensure_installed()
        try:
            ask = GiveVerdict(tool_name=tool_name, arguments_json=arguments_json, run_id=self._run_id)
            return (await link.request(ask)).verdict
        except InvalidReply as error:
            self._log.debug("The kernel gave no clear verdict: %s", error)
            return ToolVerdict("ask")

    async def waiting_behind(self, approval_id: str) -> int | None:
        if approval_id not in self._running:
            return None
        try:
            return (await self._link().request(LocateCall(approval_id=approval_id))).cell
        except RequestFailed as error:
            self._log.debug("The kernel did not say where the call %s is: %s", approval_id, error)
            return None

    async def undo(self, approval_id: str) -> None:
        """Raises `ToolFailed`, `KernelGone`."""
        link = self._link()
        try:
            async with asyncio.timeout(ENVIRONMENT_SECONDS):
                await link.ensure_installed()
        except (TimeoutError, RequestFailed):
            raise ToolFailed("The kernel does not answer yet. Nothing was put back.") from None
        try:
            undone = await link.request(UndoCall(approval_id=approval_id))
        except RequestFailed as error:
            raise ToolFailed(f"The kernel could not do it: {error}") from error
        if undone.refusal is not None:
            raise ToolFailed(undone.refusal)

    async def preview(self, tool_name: str, arguments_json: str, place: Place | None) -> FileCard | None:
        link = self._link()
        try:
            async with asyncio.timeout(PREVIEW_SECONDS):
                await link.ensure_installed()
                preview = PreviewCall(tool_name=tool_name, arguments_json=arguments_json, place=place)
                return (await link.request(preview)).card
        except (TimeoutError, RequestFailed) as error:
            self._log.debug("The kernel showed no preview: %s", error)
            return None

    async def read_picture(self, address: str) -> bytes:
        """Raises `ToolFailed`, `KernelGone`."""
        link = self._link()
        try:
            await link.ensure_installed()
            picture = await link.request(
                ReadPicture(path=address, run_id=self._run_id, notebook_path=self._notebook_path)
            )
            if picture.refusal is not None:
                raise ToolFailed(picture.refusal[:PICTURE_REFUSAL_CHARACTERS])
            return decode(picture.data)
        except RequestFailed as error:
            self._log.debug("The kernel did not read a picture: %s", error)
            raise ToolFailed("the kernel could not read it") from error
        except NoPicture as reason:
            raise ToolFailed(str(reason)) from None

    async def describe_environment(self) -> str:
        """Raises `KernelGone`; empty where a busy kernel has not loaded the extension yet."""
        link = self._link()
        try:
            async with asyncio.timeout(ENVIRONMENT_SECONDS):
                await link.ensure_installed()
                return (await link.request(DescribeEnvironment(notebook_path=self._notebook_path))).text
        except (TimeoutError, RequestFailed) as error:
            self._log.debug("The kernel did not describe itself: %s", error)
            return ""
