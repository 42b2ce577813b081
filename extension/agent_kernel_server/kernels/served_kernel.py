"""ServedKernel owns all that concerns one kernel: its transport and link, its events, its runs and their tasks."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from typing import Any, assert_never
from weakref import WeakValueDictionary

from pydantic import ValidationInfo, field_validator

from agent_kernel.approvals.limits import checked_limits
from agent_kernel.errors import AgentKernelError, ConfigurationError, KernelGone
from agent_kernel.execution.cell_changes import CellChanges
from agent_kernel.execution.kernel_executor import KernelCalls
from agent_kernel.execution.link import KernelLink, RequestFailed, RequestRefused, Unreachable
from agent_kernel.execution.notebook_executor import NotebookExecutor
from agent_kernel.protocol.kernel import (
    Declared,
    DeclareRun,
    FinishRun,
    KeptChange,
    ListChanges,
    RunDeclaration,
    Serve,
    failed_run,
)
from agent_kernel.protocol.kernel_events import (
    AnyQuestion,
    CallEnded,
    CancelRun,
    Hello,
    KernelEvent,
    KernelInterrupted,
    Question,
    RunAnnounced,
)
from agent_kernel.protocol.vocabulary import BudgetLimits, StopCause
from agent_kernel.runtime.conversation import Conversation
from agent_kernel.runtime.runs.queue import RunHandle
from agent_kernel.runtime.runs.stop import Stop, stop_for
from agent_kernel.runtime.settings import RunSpec
from agent_kernel.runtime.tasks import TaskOwner
from agent_kernel.tools.builtin.declarations import is_shipped, no_looser
from agent_kernel_server.kernels.answers import Answers
from agent_kernel_server.kernels.run_sync import RunSync
from agent_kernel_server.kernels.shared import Shared
from agent_kernel_server.kernels.transport import Listener, Transport
from agent_kernel_server.notebooks.editor import ServedNotebook
from agent_kernel_server.notebooks.run_cell import run_cell

DECLARE_SECONDS = 20.0
END_SECONDS = 5.0
"""How long the runs of a kernel that has gone are given to end honestly."""

STARTING_RUNS = 64
"""How many runs of a kernel may wait for their turn to start. Other announcements are repeated, and get their turn."""

ANSWER_SECONDS = 10.0
"""How long a kernel may take to say whether it still has a run, or what it can undo."""

ENDED_NOTICE = "Stopped, because the kernel was restarted or shut down."
ENDED_OR_INTERRUPTED = "The kernel was interrupted, restarted or shut down at its gateway."

LATE_SECONDS = 0.5
"""How much later than the signal itself Jupyter's event may come."""


class CheckedDeclaration(RunDeclaration):
    @field_validator("budget", "conversation_budget", mode="before")
    @classmethod
    def _check_limits(cls, value: Any, info: ValidationInfo) -> BudgetLimits:
        if not isinstance(value, dict):
            raise ValueError("limits are an object")  # noqa: TRY004 -- pydantic takes no other
        try:
            return checked_limits(value, info.field_name or "budget")
        except ConfigurationError as error:
            raise ValueError(str(error)) from None


class CheckedDeclared(Declared):
    declaration: CheckedDeclaration


def spec_of(declaration: RunDeclaration, notebook_path: str | None) -> RunSpec:
    """The declared run. Its built-in tools are no looser than they ship."""
    tools = tuple(no_looser(tool) for tool in declaration.tools)
    return replace(RunSpec.from_declaration(declaration), tools=tools, notebook_path=notebook_path)


class Interrupts:
    """The interrupts of one kernel."""

    def __init__(self) -> None:
        self._last = float("-inf")
        self._recorded = asyncio.Event()

    def record(self) -> None:
        """Jupyter has interrupted the kernel."""
        self._last = time.monotonic()
        self._recorded.set()

    async def any_within(self, seconds: float) -> bool:
        """Whether there was one in the last so many seconds, or is one in a moment."""
        since = time.monotonic() - seconds - LATE_SECONDS
        self._recorded.clear()
        if self._last < since:
            try:
                async with asyncio.timeout(LATE_SECONDS):
                    await self._recorded.wait()
            except TimeoutError:
                return False
        return True


class ServedKernel:
    def __init__(
        self,
        kernel_id: str,
        open_transport: Callable[[Listener], Transport],
        shared: Shared,
        on_gone: Callable[[str], None],
        interrupt: Callable[[], Awaitable[None]],
        why_culled: Callable[[], str | None],
    ) -> None:
        """`on_gone` is called with the reason when the kernel is found to be lost for good; `interrupt` interrupts
        the cell that runs; `why_culled`: see `IdleKernels.why_culled`."""
        self.kernel_id = kernel_id
        self._shared = shared
        self._log = shared.log
        self._calls = KernelCalls(shared.log)
        self.on_output = self._calls.on_output
        self._tasks = TaskOwner()
        self._serving: set[asyncio.Task[None]] = set()
        self._link: KernelLink | None = None
        self.on_gone = on_gone
        self._interrupt = interrupt
        self._why_culled = why_culled
        self._announced: set[str] = set()
        """Runs of the kernel's present process that were announced."""
        self._coming: dict[str, StopCause | None] = {}
        """Runs that were announced, or that an earlier server left, and that have not started yet: why each ends as
        soon as it has started."""
        self._start_turn = asyncio.Lock()
        """Runs start in the order in which their cells ran; one may have to find its notebook first."""
        self._greeting: asyncio.Task[None] | None = None
        self._restart_pending = False
        # The runtime holds them, until they are deleted.
        self._conversations: WeakValueDictionary[str, Conversation] = WeakValueDictionary()
        self._run_sync = RunSync(kernel_id, lambda: self.link, self._page_is_open, shared, self._tasks)
        self._answers = Answers(
            kernel_id,
            shared,
            conversations=self._conversations,
            open_runs=self._run_sync.runs,
            was_interrupted=self._was_interrupted,
        )
        self.interrupts = Interrupts()
        self._cell_changes = CellChanges()
        self._transport = open_transport(self)

    @property
    def active_runs(self) -> int:
        return len(self._run_sync.runs)

    @property
    def is_busy(self) -> bool:
        """Whether a run goes on here, also one that no cell has asked for."""
        return any(conversation.is_busy for conversation in self._conversations.values())

    @property
    def link(self) -> KernelLink:
        """The link to the kernel's present process."""
        if self._link is None or self._link.gone is not None:
            self._link = KernelLink(self._transport)
        return self._link

    async def executor(self, conversation: Conversation, spec: RunSpec) -> NotebookExecutor:
        """For a run of this conversation, and for those that follow it there."""
        self._conversations[conversation.conversation_id] = conversation
        conversation.on_retry = partial(self._sync_again, conversation.conversation_id)
        own_tools = frozenset(tool.name for tool in spec.tools if not is_shipped(tool))
        return await self.executor_of(spec.run_id, spec.notebook_path, spec.cell_id, own_tools)

    async def executor_of(
        self, run_id: str, known: str | None, cell_id: str | None = None, own_tools: frozenset[str] = frozenset()
    ) -> NotebookExecutor:
        """For a run whose conversation is not told of what happens to the kernel. `known` is the notebook as far as it
        is known, `cell_id` the run's cell, `own_tools` the names of the notebook's own tools."""
        find_path = partial(self._shared.records.paths.notebook_of, self.kernel_id, (cell_id,), known)
        notebook = ServedNotebook(
            self._shared.pages,
            self._shared.files,
            self.kernel_id,
            find_path,
            lambda source, cell: run_cell(self.link, self._calls, source, cell),
            self._interrupt,
        )
        return NotebookExecutor(
            *(lambda: self.link, self._calls, run_id, await find_path(), self._log),
            notebook=notebook,
            changes=self._cell_changes,
            cell_id=cell_id,
            own_tools=own_tools,
        )

    def on_event(self, event: KernelEvent) -> None:
        match event:
            case RunAnnounced():
                self._on_announced(event)
            case Question():
                self._on_question(event)
            case Hello():
                if self._transport.remote and (self._greeting is None or self._greeting.done()):
                    self._greeting = self._tasks.spawn(self._greet(self.link), f"greeting of {self.kernel_id}")
            case CallEnded():
                self._calls.on_ended(event.approval_id, event.end)
            case CancelRun():
                self._stop(event.run_id, event.cause)
            case KernelInterrupted():
                self._on_interrupted(event.run_id)
            case _:
                assert_never(event)

    def _stop(self, run_id: str, cause: StopCause) -> None:
        """End a run now, or as soon as it has started."""
        if cause == "cell_deleted" and self._shared.is_shown(run_id):
            return  # JupyterLab reports a cell that was cut as deleted, also after it was pasted
        conversation = self._run_sync.runs.get(run_id)
        if conversation is not None:
            stop = partial(conversation.cancel_run, run_id)
            is_interrupt = cause == "interrupted"
            work = self._stop_interrupted(conversation, stop) if is_interrupt else stop(stop_for(cause))
            self._tasks.spawn(work, f"cancel {run_id}")
        elif run_id in self._coming:
            self._coming[run_id] = cause

    def _on_interrupted(self, run_id: str | None) -> None:
        """Stop a run that the kernel did not start, or all such runs."""
        for conversation in list(self._conversations.values()):
            stop = partial(conversation.kernel_interrupted, run_id)
            work = self._stop_interrupted(conversation, stop)
            self._tasks.spawn(work, f"interrupt of {conversation.conversation_id}")

    async def _stop_interrupted(self, conversation: Conversation, stop: Callable[[Stop], Awaitable[None]]) -> None:
        """Jupyter interrupts a kernel before it shuts it down or restarts it. Then no interrupt was meant. A gateway
        does not say what it was."""
        if self._transport.is_ending and (culled := self._why_culled()) is not None:
            await conversation.kernel_gone(culled, restarting=False)
        elif self._transport.is_ending:
            await stop(Stop("The kernel was restarted or shut down.", by=None, notice=ENDED_NOTICE))
        elif self._transport.remote and not await self.interrupts.any_within(0):
            await stop(Stop(ENDED_OR_INTERRUPTED, by=None, notice=f"Stopped. {ENDED_OR_INTERRUPTED}"))
        else:
            await stop(stop_for("interrupted"))

    def _on_question(self, question: AnyQuestion) -> None:
        if question.through_gateway == self._transport.remote:
            self._tasks.spawn(self._answer(question, self.link), f"answer to {self.kernel_id}")

    async def _answer(self, question: AnyQuestion, link: KernelLink) -> None:
        """A repeated question is answered again. The kernel takes the first answer, if it still waits for one."""
        await self._run_sync.notify(link, await self._answers.answer(question))

    async def _was_interrupted(self, seconds: float) -> bool:
        return not self._transport.reports_interrupts or await self.interrupts.any_within(seconds)

    async def changes(self) -> tuple[KeptChange, ...]:
        """The changes of cells and files that can be undone, or were; without the files where the kernel does not
        answer in time."""
        link, cells = self.link, self._cell_changes.changes()
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                await link.ensure_installed()
                return (*(await link.request(ListChanges())).value, *cells)
        except (TimeoutError, RequestFailed, KernelGone) as error:
            self._log.debug("The kernel did not say what can be undone: %s", error)
            return tuple(cells)

    def _on_announced(self, event: RunAnnounced) -> None:
        if event.run_id in self._announced:
            return
        if len(self._coming) >= STARTING_RUNS:
            return  # repeated until the declaration is asked for
        if event.through_gateway != self._transport.remote:
            return  # it is for the extension of the other server, the gateway's or the one in front of it
        self._announced.add(event.run_id)
        self._coming[event.run_id] = None
        self.link.installed.set()
        serving = self._tasks.spawn(self._serve(event.run_id, self.link), f"run {event.run_id}")
        self._serving.add(serving)
        serving.add_done_callback(self._serving.discard)

    async def _serve(self, run_id: str, link: KernelLink) -> None:
        """One announced run, from its declaration to its record."""
        try:
            started = await self._start(run_id, link)
        finally:
            stop = self._coming.pop(run_id, None)
        if started is not None:
            spec, conversation, handle = started
            self._on_started(run_id, conversation, stop)
            await self._run_sync.sync(spec, conversation, handle, link)

    async def _start(self, run_id: str, link: KernelLink) -> tuple[RunSpec, Conversation, RunHandle] | None:
        """`None` where it can't start, which the kernel is sent if it has declared the run."""
        try:
            declaration = await self._declaration_of(run_id, link)
        except (KernelGone, RequestFailed, TimeoutError) as error:
            self._announced.discard(run_id)
            self._log.warning("The run %s was announced but not declared: %s", run_id, error)
            return None
        self._coming[run_id] = declaration.stop or self._coming[run_id]
        try:
            async with self._start_turn:
                return await self._start_declared(declaration)
        except AgentKernelError as error:
            self._log.warning("The run %s can't start: %s", run_id, error)
            await self._run_sync.notify(link, FinishRun(result=failed_run(declaration, str(error))))
            return None

    async def _start_declared(self, declaration: RunDeclaration) -> tuple[RunSpec, Conversation, RunHandle]:
        path = await self._shared.records.paths.notebook_of(
            self.kernel_id, (declaration.cell_id, *declaration.cells_before)
        )
        conversation = await self._conversation_of(declaration, path)
        spec = spec_of(declaration, path)
        executor = await self.executor(conversation, spec)
        handle = await conversation.start_run(spec, executor)
        self._shared.records.on_start(spec, conversation)
        return spec, conversation, handle

    def _on_started(self, run_id: str, conversation: Conversation, stop: StopCause | None) -> None:
        """A run has started, or goes on after a restart of the server. It can be stopped from here on."""
        self._run_sync.runs[run_id] = conversation
        if stop is not None:
            self._stop(run_id, stop)

    async def _declaration_of(self, run_id: str, link: KernelLink) -> RunDeclaration:
        async with asyncio.timeout(DECLARE_SECONDS):
            declaration = (await link.request(DeclareRun(run_id=run_id), CheckedDeclared)).declaration
        if declaration.run_id != run_id:
            raise RequestRefused("The kernel declared another run than it announced.")
        return declaration

    async def _greet(self, link: KernelLink) -> None:
        """Tell a kernel behind a gateway that it is served, which its environment can't."""
        await self._run_sync.notify(link, Serve())
        if link.gone is None:
            link.installed.set()

    async def has_run(self, run_id: str) -> bool:
        """Whether the kernel's process is the one that made this run.

        A kernel that does not answer in time is busy, and taken for the same one.
        """
        link = self.link
        self._coming[run_id] = None
        greeting = self._tasks.spawn(self._greet(link), f"greeting of {self.kernel_id}")
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                await link.ensure_installed()
                declaration = await self._declaration_of(run_id, link)
        except TimeoutError:
            return True
        except (KernelGone, RequestFailed) as error:
            self._log.debug("The kernel %s does not have the run %s: %s", self.kernel_id, run_id, error)
            self._coming.pop(run_id, None)
            return False
        finally:
            greeting.cancel()
        self._coming[run_id] = declaration.stop or self._coming[run_id]
        return True

    def sync_run(self, spec: RunSpec, conversation: Conversation, handle: RunHandle) -> None:
        """Keep the kernel's `Run` up to date with a run that goes on after the server was restarted."""
        self._shared.records.on_start(spec, conversation)
        self._on_started(spec.run_id, conversation, self._coming.pop(spec.run_id, None))
        self._tasks.spawn(self._run_sync.sync(spec, conversation, handle, self.link), f"run {spec.run_id}")

    def _sync_again(self, conversation_id: str, spec: RunSpec, handle: RunHandle) -> None:
        """As `sync_run`, for a run that had ended and is tried again."""
        again = self._run_sync.sync(spec, self._conversations[conversation_id], handle, self.link, again=True)
        self._tasks.spawn(again, f"run {spec.run_id}")

    async def _conversation_of(self, declaration: RunDeclaration, notebook_path: str | None) -> Conversation:
        """The declared conversation. A kernel speaks for its own conversations only."""
        runtime = await self._shared.runtime()
        conversation = await runtime.create_conversation(
            kernel_id=self.kernel_id,
            conversation_id=declaration.conversation_id,
            notebook_path=notebook_path,
        )
        if conversation.kernel_id != self.kernel_id:
            raise AgentKernelError("This conversation belongs to another kernel.")
        return conversation

    async def _page_is_open(self) -> bool:
        return await self._shared.records.page_is_open(self.kernel_id, self._transport.connections)

    def died(self) -> None:
        """The process ended by itself, and Jupyter is about to start another."""
        self._restart_pending = True
        self.on_restart("The kernel died and was restarted.", after_death=True)

    def restarted(self, *, success: bool) -> None:
        """Jupyter has restarted the kernel: after a death, which `died` has dealt with, or because a user asked."""
        if success and not self._restart_pending:
            self.on_restart("The kernel was restarted.", after_death=False)
        self._restart_pending = False
        self._transport.restarted()

    def on_restart(self, reason: str, *, after_death: bool) -> None:
        """See `Listener`."""
        self._end_link(KernelGone(reason), restarting=after_death, by_user=not after_death)

    def on_unreachable(self, reason: str) -> None:
        """See `Listener`."""
        self._end_link(Unreachable(reason), restarting=False, by_user=False)

    def _end_link(self, error: KernelGone, *, restarting: bool, by_user: bool) -> None:
        """Whatever waits for the kernel fails now. The runtime is told in a task."""
        self._announced.clear()
        if self._link is not None:
            self._link.fail(error)
        for conversation in list(self._conversations.values()):
            self._tasks.spawn(
                conversation.kernel_gone(str(error), restarting=restarting, by_user=by_user),
                f"end of {conversation.conversation_id}",
            )

    async def aclose(self, reason: str, *, by_user: bool) -> None:
        """The kernel is shut down, or the server is, or it is lost."""
        await self._transport.aclose()
        if self._link is not None:
            self._link.fail(KernelGone(reason))
        for conversation in list(self._conversations.values()):
            await conversation.kernel_gone(reason, restarting=False, by_user=by_user)
        if self._serving:
            await asyncio.wait(self._serving, timeout=END_SECONDS)
        await self._tasks.aclose()
