"""AttachedKernel owns all that concerns one kernel: what is heard from it, the link to it, its runs and their tasks."""

import asyncio
from collections.abc import Awaitable, Callable
from logging import Logger
from typing import Any, assert_never

import orjson
from pydantic import ValidationError

from agent_kernel.errors import AgentKernelError, KernelGone
from agent_kernel.loop.brain import Brain
from agent_kernel.loop.conversation import Conversation, RunHandle
from agent_kernel.loop.settings import RunSpec
from agent_kernel.loop.tasks import TaskOwner
from agent_kernel_server.kernels.announcements import Announcements
from agent_kernel_server.kernels.calls import CallFeeds
from agent_kernel_server.kernels.hands import KernelHands
from agent_kernel_server.kernels.link import KernelLink, RequestRefused
from agent_kernel_server.kernels.messages import (
    Announce,
    CallEnded,
    CallOutput,
    CancelRun,
    KernelEvent,
    RunDeclaration,
    finished_result,
    refused_result,
)
from agent_kernel_server.notebooks import RecordKeeper

STATE_SECONDS = 0.25
"""The kernel's `Run` hears of a run's state at most this often."""

DECLARE_SECONDS = 20.0
END_SECONDS = 5.0
"""How long the runs of a kernel that has gone are given to end honestly."""


class AttachedKernel:
    def __init__(
        self,
        kernel_id: str,
        kernel: Any,
        brain: Callable[[], Awaitable[Brain]],
        records: RecordKeeper,
        log: Logger,
    ) -> None:
        self.kernel_id = kernel_id
        self._kernel = kernel
        self._brain = brain
        self._records = records
        self._log = log
        self._feeds = CallFeeds()
        self._tasks = TaskOwner()
        self._serving: set[asyncio.Task[None]] = set()
        self._link: KernelLink | None = None
        self._ports = list(kernel.ports)
        self._announcements = Announcements(kernel, self._hear, log)
        self._announced: set[str] = set()
        self._restart_pending = False
        self._runs: dict[str, Conversation] = {}
        self._conversations: dict[str, Conversation] = {}

    @property
    def active_runs(self) -> int:
        return len(self._runs)

    @property
    def link(self) -> KernelLink:
        """The link to the kernel's present life."""
        if self._link is None or self._link.gone is not None:
            self._link = KernelLink(self._kernel, self._log)
        return self._link

    async def hands(self, conversation: Conversation, run_id: str) -> KernelHands:
        """Hands for a run of this conversation, and for those that follow it there."""
        self._conversations[conversation.conversation_id] = conversation
        path = await self._records.notebook_path(self.kernel_id)
        return KernelHands(lambda: self.link, self._feeds, run_id, path, self._log)

    def _hear(self, event: KernelEvent) -> None:
        match event:
            case Announce():
                self._announce(event)
            case CallOutput():
                self._feeds.output(event.tool_call_id, event.index, event.output)
            case CallEnded():
                self._feeds.ended(event.tool_call_id)
            case CancelRun():
                conversation = self._runs.get(event.run_id)
                if conversation is not None:
                    self._tasks.spawn(conversation.cancel_run(event.run_id), f"cancel {event.run_id}")
            case _:
                assert_never(event)

    def _announce(self, event: Announce) -> None:
        if event.run_id in self._announced:
            return  # repeated until the kernel is asked
        self._announced.add(event.run_id)
        self.link.installed = True
        serving = self._tasks.spawn(self._serve(event.run_id, self.link), f"run {event.run_id}")
        self._serving.add(serving)
        serving.add_done_callback(self._serving.discard)

    async def _serve(self, run_id: str, link: KernelLink) -> None:
        """One announced run, from its declaration to its record."""
        try:
            async with asyncio.timeout(DECLARE_SECONDS):
                answer = await link.control("declare", {"run_id": run_id})
            declaration = RunDeclaration.model_validate(answer.get("declaration"))
        except (KernelGone, RequestRefused, ValidationError, TimeoutError) as error:
            self._announced.discard(run_id)
            self._log.warning("The run %s was announced but not declared: %s", run_id, error)
            return
        try:
            conversation = await self._conversation_of(declaration)
            handle = await conversation.start_run(declaration.spec(), await self.hands(conversation, run_id))
        except AgentKernelError as error:
            self._log.warning("The run %s can't start: %s", run_id, error)
            await self._tell(link, "finish", {"result": refused_result(declaration, str(error))})
            return
        await self._follow(declaration.spec(), conversation, handle, link)

    def follow(self, spec: RunSpec, conversation: Conversation, handle: RunHandle) -> None:
        """Keep the kernel's `Run` up to date with a run that goes on after the server was restarted."""
        self._tasks.spawn(self._follow(spec, conversation, handle, self.link), f"run {spec.run_id}")

    async def _conversation_of(self, declaration: RunDeclaration) -> Conversation:
        """The declared conversation. A kernel speaks for its own conversations only."""
        brain = await self._brain()
        conversation = await brain.create_conversation(
            kernel_id=self.kernel_id,
            conversation_id=declaration.conversation_id,
            notebook_path=await self._records.notebook_path(self.kernel_id),
        )
        if conversation.kernel_id != self.kernel_id:
            raise AgentKernelError("This conversation belongs to another kernel.")
        return conversation

    async def _follow(self, spec: RunSpec, conversation: Conversation, handle: RunHandle, link: KernelLink) -> None:
        self._runs[spec.run_id] = conversation
        subscription = conversation.subscribe()
        feeder = self._tasks.spawn(self._feed_state(spec.run_id, subscription, link), f"state of {spec.run_id}")
        try:
            result = await handle.wait()
        finally:
            del self._runs[spec.run_id]
            subscription.close()
            feeder.cancel()
            await asyncio.gather(feeder, return_exceptions=True)
        await self._records.keep(spec.widget_model_id, result, await self._records.notebook_path(self.kernel_id))
        await self._tell(link, "finish", {"result": finished_result(result)})
        await self._records.place(spec.widget_model_id, lambda: self._records.page_is_open(self.kernel_id))

    async def _feed_state(self, run_id: str, subscription: Any, link: KernelLink) -> None:
        """Keep the kernel's `Run` up to date with the run's own events."""
        async for frame in subscription:
            if '"run":{' not in frame:
                continue  # a token costs no parsing
            event = orjson.loads(frame)
            if event.get("type") == "run" and event["run"]["run_id"] == run_id:
                await self._tell(link, "state", {"run": event["run"]})
                await asyncio.sleep(STATE_SECONDS)

    async def _tell(self, link: KernelLink, op: str, fields: dict[str, Any]) -> None:
        try:
            await link.control(op, fields)
        except (KernelGone, RequestRefused) as error:
            self._log.debug("The kernel %s was not told %r: %s", self.kernel_id, op, error)

    def died(self) -> None:
        """The process ended by itself, and Jupyter is about to start another."""
        self._restart_pending = True
        self._life_ended("The kernel died and was restarted.", restarting=True)

    def restarted(self, *, success: bool) -> None:
        """Jupyter has restarted the kernel: after a death that was told already, or because a user asked for it."""
        if success and not self._restart_pending:
            self._life_ended("The kernel was restarted.", restarting=False)
        self._restart_pending = False
        if list(self._kernel.ports) != self._ports:
            self._reconnect()

    def _life_ended(self, reason: str, *, restarting: bool) -> None:
        """The kernel's namespace is lost. Every waiter is told now; the brain hears of it in a task."""
        self._announced.clear()
        if self._link is not None:
            self._link.fail(KernelGone(reason))
        for conversation in self._conversations.values():
            self._tasks.spawn(
                conversation.kernel_gone(reason, restarting=restarting),
                f"end of {conversation.conversation_id}",
            )

    def _reconnect(self) -> None:
        """A kernel that could not bind its ports was given others."""
        self._ports = list(self._kernel.ports)
        self._announcements.close()
        self._announcements = Announcements(self._kernel, self._hear, self._log)

    async def aclose(self, reason: str) -> None:
        """The kernel is shut down, or the server is."""
        self._announcements.close()
        if self._link is not None:
            self._link.fail(KernelGone(reason))
        for conversation in self._conversations.values():
            await conversation.kernel_gone(reason, restarting=False)
        if self._serving:
            await asyncio.wait(self._serving, timeout=END_SECONDS)
        await self._tasks.aclose()
