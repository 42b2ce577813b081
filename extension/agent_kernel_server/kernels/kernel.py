"""ServedKernel owns all that concerns one kernel: what is heard from it, the link to it, its runs and their tasks."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from logging import Logger
from typing import Any, assert_never
from weakref import WeakValueDictionary

from pydantic import ValidationError

from agent_kernel.errors import AgentKernelError, KernelGone, UnknownApproval, UnknownRule
from agent_kernel.protocol.views import ModelsView
from agent_kernel.protocol.vocabulary import StopCause
from agent_kernel.runtime.conversation import Conversation
from agent_kernel.runtime.runs.queue import RunHandle
from agent_kernel.runtime.runs.stop import Stop, stop_for
from agent_kernel.runtime.runtime import Runtime
from agent_kernel.runtime.settings import RunSpec
from agent_kernel.runtime.tasks import TaskOwner
from agent_kernel_server.kernels.executor import KernelExecutor
from agent_kernel_server.kernels.interrupts import Interrupts
from agent_kernel_server.kernels.link import KernelLink, RequestRefused, Unreachable
from agent_kernel_server.kernels.live_outputs import AllLiveOutputs
from agent_kernel_server.kernels.messages import (
    Announce,
    Ask,
    CallEnded,
    CallOutput,
    CancelRun,
    Hello,
    Interrupted,
    KeptChange,
    KeptChanges,
    KernelEvent,
    RunDeclaration,
    refused_result,
)
from agent_kernel_server.kernels.run_sync import RunSync
from agent_kernel_server.kernels.transport import Listener, Transport
from agent_kernel_server.notebooks import RecordKeeper

DECLARE_SECONDS = 20.0
END_SECONDS = 5.0
"""How long the runs of a kernel that has gone are given to end honestly."""

UNDECLARED_RUNS = 32
"""How many announced runs a kernel is asked about at once. The others are repeated, so they are heard later."""

OPEN_QUESTIONS = 8
"""How many questions of a kernel are answered at once. The others are repeated, so they are heard later."""

ANSWER_SECONDS = 10.0
"""How long a kernel that an earlier server left may take to say whether it still has a run."""


ENDED_NOTICE = "Stopped, because the kernel was restarted or shut down."


class ServedKernel:
    def __init__(
        self,
        kernel_id: str,
        open_reach: Callable[[Listener], Transport],
        runtime: Callable[[], Awaitable[Runtime]],
        list_models: Callable[[], Awaitable[ModelsView]],
        is_shown: Callable[[str], bool],
        records: RecordKeeper,
        log: Logger,
        release: Callable[[str], None],
    ) -> None:
        """`release` is called with the reason when the kernel is found to be lost for good."""
        self.kernel_id = kernel_id
        self._runtime = runtime
        self._list_models = list_models
        self._is_shown = is_shown
        self._records = records
        self._log = log
        self._feeds = AllLiveOutputs()
        self._tasks = TaskOwner()
        self._serving: set[asyncio.Task[None]] = set()
        self._answering: set[asyncio.Task[None]] = set()
        self._link: KernelLink | None = None
        self.gone = release
        self._announced: set[str] = set()
        self._asking: set[str] = set()
        self._beginning: set[str] = set()
        """Runs that were announced, or that an earlier server left, and that do not go on yet."""
        self._stops: dict[str, StopCause] = {}
        """Why some of them are to end at once."""
        self._misdirected = False
        self._undoing = asyncio.Lock()
        self._greeting: asyncio.Task[None] | None = None
        self._restart_pending = False
        # The runtime holds them: one that was deleted is let go of.
        self._conversations: WeakValueDictionary[str, Conversation] = WeakValueDictionary()
        self._follower = RunSync(kernel_id, lambda: self.link, self._page_is_open, records, self._tasks, log)
        self.interrupts = Interrupts()
        self._reach = open_reach(self)

    @property
    def active_runs(self) -> int:
        return len(self._follower.runs)

    @property
    def link(self) -> KernelLink:
        """The link to the kernel's present life."""
        if self._link is None or self._link.gone is not None:
            self._link = KernelLink(self._reach)
        return self._link

    async def executor(self, conversation: Conversation, run_id: str, spec: RunSpec | None = None) -> KernelExecutor:
        """ToolExecutor for a run of this conversation, and for those that follow it there."""
        self._conversations[conversation.conversation_id] = conversation
        conversation.on_retry = partial(self._follow_again, conversation.conversation_id)
        cell_id = spec.cell_id if spec is not None else None
        known = spec.notebook_path if spec is not None else conversation.row.notebook_path
        path = await self._records.notebook_path(self.kernel_id, (cell_id,), known)
        return KernelExecutor(lambda: self.link, self._feeds, run_id, path, self._log)

    def hear(self, event: KernelEvent) -> None:
        match event:
            case Announce():
                self._announce(event)
            case Ask():
                self._asked(event)
            case Hello():
                if self._reach.remote and (self._greeting is None or self._greeting.done()):
                    greeting = self._serve_from_afar(self.link)
                    self._greeting = self._tasks.spawn(greeting, f"greeting of {self.kernel_id}")
            case CallOutput():
                self._feeds.output(event.approval_id, event.index, event.output)
            case CallEnded():
                self._feeds.ended(event.approval_id)
            case CancelRun():
                self._stop(event.run_id, event.cause)
            case Interrupted():
                self._interrupted(event.run_id)
            case _:
                assert_never(event)

    def _stop(self, run_id: str, cause: StopCause) -> None:
        """End a run, or have it end as soon as it has begun."""
        if cause == "cell_deleted" and self._is_shown(run_id):
            return  # JupyterLab calls deleted what was cut, though it has been pasted since
        conversation = self._follower.runs.get(run_id)
        if conversation is not None:
            self._tasks.spawn(conversation.cancel_run(run_id, self._stop_for(cause)), f"cancel {run_id}")
        elif run_id in self._beginning:
            self._stops[run_id] = cause

    def _interrupted(self, run_id: str | None) -> None:
        """Stop a run that the kernel did not start, or all of these."""
        for conversation in list(self._conversations.values()):
            stopping = conversation.kernel_interrupted(run_id, self._stop_for("interrupted"))
            self._tasks.spawn(stopping, f"interrupt of {conversation.conversation_id}")

    def _stop_for(self, cause: StopCause) -> Stop:
        """Jupyter interrupts a kernel before it shuts it down, also to start it again: that is no interrupt then."""
        if cause == "interrupted" and self._reach.is_ending:
            return Stop("The kernel was restarted or shut down.", by=None, notice=ENDED_NOTICE)
        return stop_for(cause)

    def _asked(self, question: Ask) -> None:
        if question.through_gateway == self._reach.remote and len(self._answering) < OPEN_QUESTIONS:
            answering = self._tasks.spawn(self._answer(question, self.link), f"answer to {self.kernel_id}")
            self._answering.add(answering)
            answering.add_done_callback(self._answering.discard)

    async def _answer(self, question: Ask, link: KernelLink) -> None:
        """The kernel may have been told already, or no longer wait: then it does nothing."""
        said: dict[str, Any] = {"question_id": question.question_id}
        try:
            said["answer"] = await self._answer_to(question)
        except AgentKernelError as error:
            said["refusal"] = str(error)
        await self._follower.tell(link, "answer", said)

    async def _answer_to(self, question: Ask) -> dict[str, Any]:
        match question.topic:
            case "usage":
                return (await (await self._runtime()).usage(question.days)).model_dump(mode="json")
            case "models":
                return (await self._list_models()).model_dump(mode="json")
            case "waiting":
                return {"runs": await self._open_runs()}
            case "remove_rule":
                return await self._remove_rule(question)
            case "interrupt":
                known = not self._reach.tells_interrupts or await self.interrupts.came_within(question.seconds)
                return {"asked_for": known}
            case "undo":
                return await self._undo(question)
            case _:
                assert_never(question.topic)

    async def _remove_rule(self, question: Ask) -> dict[str, Any]:
        """What a person allowed is asked about again. A rule that is gone already was asked for twice."""
        conversation = self._conversations.get(question.conversation_id or "")
        if conversation is None or question.rule_id is None:
            raise UnknownRule(question.rule_id or "")
        with suppress(UnknownRule):
            await conversation.remove_rule(question.rule_id, by="script")
        return {}

    async def _undo(self, question: Ask) -> dict[str, Any]:
        """A kernel speaks for its own calls only. It asks again until it is answered."""
        runtime = await self._runtime()
        async with self._undoing:
            call = await runtime.find_call(question.approval_id or "")
            if (await runtime.conversation(call.conversation_id)).kernel_id != self.kernel_id:
                raise UnknownApproval(call.approval_id)
            if not call.undone:
                await runtime.undo(call.approval_id, by="script")
        return {}

    async def changes(self) -> tuple[KeptChange, ...]:
        """The changes of files whose way back the kernel knows. None where it does not answer in time."""
        link = self.link
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                await link.ensure_installed()
                return KeptChanges.model_validate(await link.control("changes", {})).changes
        except (TimeoutError, RequestRefused, KernelGone, ValidationError) as error:
            self._log.debug("The kernel did not say what can be undone: %s", error)
            return ()

    async def _open_runs(self) -> list[dict[str, Any]]:
        """Those of this kernel: what of each waits for a person, and its notebook where several use the kernel."""
        listed = await self._records.places.follow(await (await self._runtime()).list_runs(ended=0))
        several = len((await self._records.places.by_kernel()).get(self.kernel_id, ())) > 1
        return [
            {
                "run_id": run.run_id,
                "tool_names": run.waiting_tools,
                "notebook": run.notebook if several else None,
            }
            for run in listed
            if run.run_id in self._follower.runs
        ]

    def _announce(self, event: Announce) -> None:
        if event.run_id in self._announced or len(self._asking) >= UNDECLARED_RUNS:
            return  # repeated until the kernel is asked
        if event.through_gateway != self._reach.remote:
            self._tell_misdirected(event.run_id)
            return
        self._announced.add(event.run_id)
        self._asking.add(event.run_id)
        self._beginning.add(event.run_id)
        self.link.installed.set()
        serving = self._tasks.spawn(self._serve(event.run_id, self.link), f"run {event.run_id}")
        self._serving.add(serving)
        serving.add_done_callback(self._serving.discard)

    def _tell_misdirected(self, run_id: str) -> None:
        if not self._misdirected:
            self._misdirected = True
            self._log.warning(
                "The run %s is for another server's extension. Where a gateway's own server has the extension, "
                "switch it off there.",
                run_id,
            )

    async def _serve(self, run_id: str, link: KernelLink) -> None:
        """One announced run, from its declaration to its record."""
        try:
            begun = await self._begin(run_id, link)
        finally:
            self._asking.discard(run_id)
            self._beginning.discard(run_id)
        if begun is None:
            self._stops.pop(run_id, None)
            return
        spec, conversation, handle = begun
        self._followed(run_id, conversation)
        await self._follower.follow(spec, conversation, handle, link)

    async def _begin(self, run_id: str, link: KernelLink) -> tuple[RunSpec, Conversation, RunHandle] | None:
        """`None` where it can't; whoever waits for it is told."""
        try:
            declaration = await self._declaration_of(run_id, link)
        except (KernelGone, RequestRefused, ValidationError, TimeoutError) as error:
            self._announced.discard(run_id)
            self._log.warning("The run %s was announced but not declared: %s", run_id, error)
            return None
        finally:
            self._asking.discard(run_id)
        try:
            path = await self._records.notebook_path(self.kernel_id, (declaration.cell_id, *declaration.cells_before))
            conversation = await self._conversation_of(declaration, path)
            spec = declaration.spec(path)
            handle = await conversation.start_run(spec, await self.executor(conversation, run_id, spec))
        except AgentKernelError as error:
            self._log.warning("The run %s can't start: %s", run_id, error)
            await self._follower.tell(link, "finish", {"result": refused_result(declaration, str(error))})
            return None
        if declaration.stop is not None:
            self._stops[run_id] = declaration.stop
        return spec, conversation, handle

    def _followed(self, run_id: str, conversation: Conversation) -> None:
        """A run has begun, or goes on after a restart of the server: what ends it reaches it from here on."""
        self._follower.runs[run_id] = conversation
        self._beginning.discard(run_id)
        cause = self._stops.pop(run_id, None)
        if cause is not None:
            self._stop(run_id, cause)

    async def _declaration_of(self, run_id: str, link: KernelLink) -> RunDeclaration:
        async with asyncio.timeout(DECLARE_SECONDS):
            answer = await link.control("declare", {"run_id": run_id})
        declaration = RunDeclaration.model_validate(answer.get("declaration"))
        if declaration.run_id != run_id:
            raise RequestRefused("The kernel declared another run than it announced.")
        return declaration

    async def _serve_from_afar(self, link: KernelLink) -> None:
        """Tell a kernel behind a gateway that it is served, which its environment can't."""
        await self._follower.tell(link, "serve", {})
        if link.gone is None:
            link.installed.set()

    async def still_has(self, run_id: str) -> bool:
        """Whether the kernel is the one that made this run, and not one that was started in its place.

        A kernel that does not say so in time is busy, and the same one as far as anybody knows.
        """
        link = self.link
        self._beginning.add(run_id)
        greeting = self._tasks.spawn(self._serve_from_afar(link), f"greeting of {self.kernel_id}")
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                await link.ensure_installed()
                declaration = await self._declaration_of(run_id, link)
        except TimeoutError:
            return True
        except (KernelGone, RequestRefused, ValidationError) as error:
            self._log.debug("The kernel %s does not have the run %s: %s", self.kernel_id, run_id, error)
            return False
        finally:
            greeting.cancel()
        if declaration.stop is not None:
            self._stops[run_id] = declaration.stop
        return True

    def follow(self, spec: RunSpec, conversation: Conversation, handle: RunHandle) -> None:
        """Keep the kernel's `Run` up to date with a run that goes on after the server was restarted."""
        self._followed(spec.run_id, conversation)
        self._tasks.spawn(self._follower.follow(spec, conversation, handle, self.link), f"run {spec.run_id}")

    def _follow_again(self, conversation_id: str, spec: RunSpec, handle: RunHandle) -> None:
        """The same for a run that had ended: the kernel hears first that it goes on."""
        again = self._follower.follow(spec, self._conversations[conversation_id], handle, self.link, again=True)
        self._tasks.spawn(again, f"run {spec.run_id}")

    async def _conversation_of(self, declaration: RunDeclaration, notebook_path: str | None) -> Conversation:
        """The declared conversation. A kernel speaks for its own conversations only."""
        runtime = await self._runtime()
        conversation = await runtime.create_conversation(
            kernel_id=self.kernel_id,
            conversation_id=declaration.conversation_id,
            notebook_path=notebook_path,
        )
        if conversation.kernel_id != self.kernel_id:
            raise AgentKernelError("This conversation belongs to another kernel.")
        return conversation

    async def _page_is_open(self) -> bool:
        return await self._records.page_is_open(self.kernel_id, self._reach.connections)

    def died(self) -> None:
        """The process ended by itself, and Jupyter is about to start another."""
        self._restart_pending = True
        self.life_ended("The kernel died and was restarted.", restarting=True)

    def restarted(self, *, success: bool) -> None:
        """Jupyter has restarted the kernel: after a death that was told already, or because a user asked for it."""
        if success and not self._restart_pending:
            self.life_ended("The kernel was restarted.", restarting=False)
        self._restart_pending = False
        self._reach.restarted()

    def life_ended(self, reason: str, *, restarting: bool) -> None:
        """See `Listener`. The kernel's namespace is lost."""
        self._end_life(KernelGone(reason), restarting=restarting, by_user=not restarting)

    def out_of_reach(self, reason: str) -> None:
        """See `Listener`."""
        self._end_life(Unreachable(reason), restarting=False, by_user=False)

    def _end_life(self, error: KernelGone, *, restarting: bool, by_user: bool) -> None:
        """Every waiter is told now; the runtime hears of it in a task."""
        self._announced.clear()
        self._stops.clear()
        if self._link is not None:
            self._link.fail(error)
        for conversation in list(self._conversations.values()):
            self._tasks.spawn(
                conversation.kernel_gone(str(error), restarting=restarting, by_user=by_user),
                f"end of {conversation.conversation_id}",
            )

    async def aclose(self, reason: str, *, by_user: bool) -> None:
        """The kernel is shut down, or the server is, or it is lost."""
        await self._reach.aclose()
        if self._link is not None:
            self._link.fail(KernelGone(reason))
        for conversation in list(self._conversations.values()):
            await conversation.kernel_gone(reason, restarting=False, by_user=by_user)
        if self._serving:
            await asyncio.wait(self._serving, timeout=END_SECONDS)
        await self._tasks.aclose()
