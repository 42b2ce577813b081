"""KernelExecutor has a kernel run approved calls. A call belongs to one life of the kernel, and ends with it.

A call is deposited with a control request, and claimed on the kernel's main thread: by code that is queued behind the
user's cells, or by a cell that waits for the run. Live outputs come over IOPub; whatever is lost there is collected.
"""

import asyncio
from collections.abc import Callable
from logging import Logger

from pydantic import ValidationError

from agent_kernel.errors import KernelGone, ToolFailed
from agent_kernel.models.images import NoPicture, decode
from agent_kernel.protocol.views import Place
from agent_kernel.tools.executor import ApprovedCall, Outcome, OutputSink, ToolVerdict
from agent_kernel.tools.review.file_cards import FileCard
from agent_kernel_server.kernels.call import INTERRUPT_SECONDS, KernelCall
from agent_kernel_server.kernels.link import KernelLink, RequestRefused
from agent_kernel_server.kernels.live_outputs import AllLiveOutputs
from agent_kernel_server.kernels.messages import Judged

ENVIRONMENT_SECONDS = 3.0
PREVIEW_SECONDS = 2.0
PICTURE_REFUSAL_CHARACTERS = 300


class KernelExecutor:
    """Implements `agent_kernel.tools.executor.ToolExecutor` for a kernel of this server."""

    def __init__(
        self,
        link: Callable[[], KernelLink],
        feeds: AllLiveOutputs,
        run_id: str,
        notebook_path: str | None,
        log: Logger,
    ) -> None:
        """`link` gives the link to the kernel's present life; `run_id` is the run whose tools the kernel holds."""
        self._link = link
        self._feeds = feeds
        self._run_id = run_id
        self._notebook_path = notebook_path
        self._log = log
        self._running: dict[str, KernelCall] = {}

    async def execute(self, call: ApprovedCall, emit: OutputSink) -> Outcome:
        link = self._link()
        try:
            await link.ensure_installed()
            with self._feeds.open(call.approval_id, emit) as feed:
                attempt = self._running[call.approval_id] = KernelCall(call, link, feed)
                return await self._run(attempt, call)
        except RequestRefused as error:
            return Outcome("error", str(error))
        finally:
            self._running.pop(call.approval_id, None)

    async def _run(self, attempt: KernelCall, call: ApprovedCall) -> Outcome:
        claim = asyncio.create_task(attempt.hand_over(self._run_id), name=f"claim of {call.approval_id}")
        try:
            return await attempt.outcome(claim)
        except asyncio.CancelledError:
            await attempt.stop(self._log)
            raise
        finally:
            claim.cancel()
            await asyncio.gather(claim, return_exceptions=True)

    async def interrupt(self, approval_id: str) -> bool:
        attempt = self._running.get(approval_id)
        if attempt is None:
            return False
        try:
            async with asyncio.timeout(INTERRUPT_SECONDS):
                return await attempt.interrupt()
        except (TimeoutError, KernelGone, RequestRefused) as error:
            self._log.debug("The call %s was not interrupted: %s", approval_id, error)
            return False

    async def judge(self, tool_name: str, arguments_json: str) -> ToolVerdict:
        link = self._link()
        await link.ensure_installed()
        answer = await link.control(
            "judge", {"tool_name": tool_name, "arguments_json": arguments_json, "run_id": self._run_id}
        )
        try:
            found = Judged.model_validate(answer)
        except ValidationError as error:
            self._log.debug("The kernel gave no clear verdict: %s", error)
            return ToolVerdict("ask")
        return ToolVerdict(found.approval, found.place, found.may_edit)

    async def waiting_behind(self, approval_id: str) -> int | None:
        if approval_id not in self._running:
            return None
        try:
            answer = await self._link().control("waiting", {"approval_id": approval_id})
        except RequestRefused as error:
            self._log.debug("The kernel did not say where the call %s is: %s", approval_id, error)
            return None
        cell = answer.get("cell")
        return cell if isinstance(cell, int) else None

    async def undo(self, approval_id: str) -> None:
        """Raises `ToolFailed`, `KernelGone`."""
        link = self._link()
        try:
            async with asyncio.timeout(ENVIRONMENT_SECONDS):
                await link.ensure_installed()
        except (TimeoutError, RequestRefused):
            raise ToolFailed("The kernel does not answer yet. Nothing was put back.") from None
        try:
            answer = await link.control("undo", {"approval_id": approval_id})
        except RequestRefused as error:
            raise ToolFailed(f"The kernel could not do it: {error}") from error
        if answer.get("refusal") is not None:
            raise ToolFailed(str(answer["refusal"]))

    async def preview(self, tool_name: str, arguments_json: str, place: Place | None) -> FileCard | None:
        link = self._link()
        try:
            async with asyncio.timeout(PREVIEW_SECONDS):
                await link.ensure_installed()
                answer = await link.control(
                    "preview",
                    {
                        "tool_name": tool_name,
                        "arguments_json": arguments_json,
                        "place": place and place.model_dump(),
                    },
                )
            return None if answer.get("card") is None else FileCard.model_validate(answer["card"])
        except (TimeoutError, RequestRefused, ValidationError) as error:
            self._log.debug("The kernel showed no preview: %s", error)
            return None

    async def read_picture(self, address: str) -> bytes:
        """Raises `ToolFailed`, `KernelGone`."""
        link = self._link()
        try:
            await link.ensure_installed()
            wanted = {"path": address, "run_id": self._run_id, "notebook_path": self._notebook_path}
            answer = await link.control("picture", wanted)
            if answer.get("refusal") is not None:
                raise ToolFailed(str(answer["refusal"])[:PICTURE_REFUSAL_CHARACTERS])
            return decode(str(answer.get("data", "")))
        except RequestRefused as error:
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
                answer = await link.control("environment", {"notebook_path": self._notebook_path})
        except (TimeoutError, RequestRefused) as error:
            self._log.debug("The kernel did not describe itself: %s", error)
            return ""
        return str(answer.get("text", ""))
