"""A conversation: its runs, one after another, and what faces may ask of it."""

import asyncio
import sqlite3
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, Protocol

from agent_kernel.approvals.offers import with_offers
from agent_kernel.errors import AgentKernelError, AlreadyDecided, IllegalTransition, UnknownApproval, UnknownRun
from agent_kernel.log import journal, ledger, runs
from agent_kernel.log.rules import revoke_rule
from agent_kernel.log.runs import ConversationRow
from agent_kernel.log.store import Log
from agent_kernel.loop import decisions, lifetime, recovery, saved_rules, stopping
from agent_kernel.loop.effective_policy import scope_keys
from agent_kernel.loop.feed import Feed, Subscription
from agent_kernel.loop.history import Histories
from agent_kernel.loop.run import ActiveRun, RunResult
from agent_kernel.loop.settings import BrainSettings, RunSpec, ScriptedDecision
from agent_kernel.loop.tasks import TaskOwner
from agent_kernel.models.base import Model
from agent_kernel.protocol.commands import Decision
from agent_kernel.protocol.ids import new_run_id
from agent_kernel.protocol.views import ConversationView, RunView, ToolCallView
from agent_kernel.tools.hands import Hands, Outcome


class ModelSource(Protocol):
    def resolve(self, name: str | None) -> Model:
        """Raises `NoModelError` or `ConfigurationError`. May block: it is called in a thread."""
        ...


@dataclass(frozen=True, slots=True)
class Host:
    """What all conversations of a brain share."""

    log: Log
    models: ModelSource
    settings: BrainSettings
    attended: bool
    tasks: TaskOwner
    histories: Histories = field(default_factory=Histories)
    active: set[ActiveRun] = field(default_factory=set)
    """The runs that are under way, of all conversations."""


@dataclass(frozen=True, slots=True)
class QueuedRun:
    spec: RunSpec
    view: RunView
    hands: Hands | None
    scripted: Sequence[ScriptedDecision]
    result: asyncio.Future[RunResult]
    begun: asyncio.Event
    """Set when the run is the active one, or could not begin."""


class RunHandle:
    """A run that was started. `wait` may be called any number of times."""

    def __init__(self, run_id: str, result: asyncio.Future[RunResult]) -> None:
        self.run_id = run_id
        self._result = result

    async def wait(self) -> RunResult:
        return await asyncio.shield(self._result)


class Conversation:
    """Made by `Brain`. All methods are for the brain's event loop."""

    def __init__(self, host: Host, row: ConversationRow, last_seq: int) -> None:
        self.row = row
        self._host = host
        self._feed = Feed(host.log, row.number, row.conversation_id, last_seq)
        self._queue: deque[QueuedRun] = deque()
        self._active: ActiveRun | None = None
        self._worker: asyncio.Task[None] | None = None
        self._last: QueuedRun | None = None
        self._continued: QueuedRun | None = None

    @property
    def conversation_id(self) -> str:
        return self.row.conversation_id

    @property
    def kernel_id(self) -> str | None:
        return self.row.kernel_id

    @property
    def last_seq(self) -> int:
        return self._feed.last_seq

    @property
    def tools(self) -> tuple[str, ...]:
        """The names of the tools of the run at hand."""
        return tuple(tool.name for tool in self._last.spec.tools) if self._last else ()

    @property
    def last_spec(self) -> RunSpec | None:
        """The run at hand, or the last one, as it was declared."""
        return self._last.spec if self._last else None

    def subscribe(self, after_seq: int | None = None) -> Subscription:
        """Committed events after `after_seq`, or from now on."""
        return self._feed.subscribe(after_seq)

    def close(self) -> None:
        self._feed.close()

    async def start_run(
        self, spec: RunSpec, hands: Hands | None, *, scripted: Sequence[ScriptedDecision] = ()
    ) -> RunHandle:
        """Queue a run and return at once. Runs of one conversation go one after another."""
        view = lifetime.queued_view(self._host, self.row, spec)
        await lifetime.save_queued(self._host.log, self.row, spec, view)
        return self._enqueue(spec, view, hands, scripted)

    def continue_run(self, spec: RunSpec, view: RunView, hands: Hands | None) -> RunHandle:
        """Go on with a run that an earlier process left open."""
        return self._enqueue(spec, view, hands, ())

    def _enqueue(
        self, spec: RunSpec, view: RunView, hands: Hands | None, scripted: Sequence[ScriptedDecision]
    ) -> RunHandle:
        result: asyncio.Future[RunResult] = asyncio.get_running_loop().create_future()
        queued = QueuedRun(spec, view, hands, scripted, result, asyncio.Event())
        self._queue.append(queued)
        if view.status == "running":
            self._continued = queued
        if self._worker is None or self._worker.done():
            self._worker = self._host.tasks.spawn(self._work(), f"conversation {self.conversation_id}")
        return RunHandle(spec.run_id, result)

    async def send_message(self, content: str) -> str:
        """The `message` command. While a run goes on, the message replaces calls that wait and is heard before the
        next model call; else it starts a run with the tools of the last one. Returns the run's id."""
        active = self._active
        if active is not None and active.accepting and active.stopping is None:
            active.inbox.append(content)
            await stopping.withdraw(active, "superseded", "By your new message.")
            return active.view.run_id
        spec = RunSpec(run_id=new_run_id(), prompt=content)
        if self._last is not None:
            spec = replace(self._last.spec, run_id=spec.run_id, prompt=content, widget_model_id=None)
        handle = await self.start_run(spec, self._last.hands if self._last else None)
        return handle.run_id

    async def decide(self, approval_id: str, decision: Decision, *, decided_by: str | None = None) -> ToolCallView:
        """A person's decision. Raises `UnknownApproval`, `AlreadyDecided`, `DigestMismatch`, `InvalidArguments`."""
        if self._continued is not None:
            # A run that goes on after a restart has calls that wait before it is active again.
            await self._continued.begun.wait()
        active = self._active
        if active is None or not active.decisions.expects(approval_id):
            active = await self._run_of_approval(approval_id)
        decided = await decisions.decide(active, approval_id, decision, decided_by)
        if decision.approved and decision.scope != "once":
            await saved_rules.rules_changed(self._host.active)
        return decided

    async def _run_of_approval(self, approval_id: str) -> ActiveRun:
        call = await self._host.log.read(lambda sql: ledger.find_approval(sql, approval_id))
        if call.conversation_id != self.conversation_id:
            raise UnknownApproval(approval_id)
        active = self._active
        if active is None or active.view.run_id != call.run_id:
            raise AlreadyDecided(f"This call is {call.state}; its run is over. Nothing was decided.", call.model_dump())
        return active

    async def remove_rule(self, rule_id: str) -> None:
        """Take back an always-allow rule that covers this conversation. A call that it allowed and that has not
        started is judged without it. Raises `UnknownRule`."""
        keys = scope_keys(self.row)
        await self._host.log.write(lambda transaction: revoke_rule(transaction.sql, rule_id, keys))
        await saved_rules.rules_changed(self._host.active)

    async def cancel_run(self, run_id: str, reason: str = stopping.BY_USER) -> None:
        """Stop a run, or take it out of the queue. A run that has ended stays as it is. Raises `UnknownRun`."""
        if self._active is not None and self._active.view.run_id == run_id:
            await stopping.stop_run(self._active, reason)
            return
        for queued in self._queue:
            if queued.spec.run_id == run_id:
                self._queue.remove(queued)
                queued.result.set_result(await lifetime.end_unstarted(self._host.log, self.row, queued.view))
                return
        view = await self._host.log.read(lambda sql: runs.read_run(sql, run_id))
        if view.conversation_id != self.conversation_id:
            raise UnknownRun(run_id)

    async def stop_all(self) -> None:
        """Stop the run at hand and empty the queue."""
        waiting = [queued.spec.run_id for queued in self._queue]
        for run_id in waiting + ([self._active.view.run_id] if self._active else []):
            await self.cancel_run(run_id)
        if self._worker is not None:
            await self._worker

    async def cancel_call(self, tool_call_id: str) -> None:
        """Cancel one call. Raises `UnknownToolCall`, `IllegalTransition` where it has ended."""
        active = await self._run_of(tool_call_id)
        await stopping.cancel_call(active, tool_call_id)

    async def retry_call(self, tool_call_id: str) -> str:
        """Have the model ask for an ended call again; the person is asked before it runs. Returns the run's id.

        Raises `UnknownToolCall`, `IllegalTransition` for a call that has not ended.
        """
        call = await self._read_call(tool_call_id)
        if call.state in ledger.UNFINISHED:
            raise IllegalTransition(f"The call {tool_call_id} is {call.state}: it has not ended yet.")
        return await self.send_message(f"Try this call again: {call.tool_name} with {call.tool_input}")

    async def tool_result(self, tool_call_id: str, output: str) -> None:
        """A page's answer to a call that waits for one. Raises `UnknownToolCall`, `AlreadyDecided`."""
        active = await self._run_of(tool_call_id)
        if not active.answers.resolve(tool_call_id, Outcome("success", output)):
            call = await self._read_call(tool_call_id)
            raise AlreadyDecided(f"This call is {call.state} and waits for no answer.", call.model_dump())

    async def kernel_gone(self, reason: str, *, restarting: bool) -> None:
        """The kernel died (`restarting`: it comes back by itself), or was restarted or shut down. Waiting calls are
        cancelled; where it does not come back by itself the runs end."""
        active = self._active
        if active is None or active.setting.hands is None:
            return
        if restarting:
            await lifetime.note_kernel_death(active, reason)
            await stopping.withdraw(active, "cancelled", reason)
            return
        await active.fail("KERNEL_DIED", reason)
        for queued in list(self._queue):
            await self.cancel_run(queued.spec.run_id)
        await stopping.stop_run(active, reason)

    async def view(self) -> ConversationView:
        """The whole conversation, calls with their outputs."""
        row, active = self.row, self._worker is not None and not self._worker.done()

        def work(sql: sqlite3.Connection) -> ConversationView:
            calls = ledger.list_calls(sql, conversation=row.number)
            outputs = journal.outputs_by_call(sql, row.number)
            waiting = any(call.state == "awaiting_approval" for call in calls)
            status: Literal["idle", "running", "awaiting_approval"] = "running" if active else "idle"
            return ConversationView(
                conversation_id=row.conversation_id,
                kernel_id=row.kernel_id,
                model=row.model,
                status="awaiting_approval" if waiting else status,
                created_at=row.created_at,
                messages=journal.message_views(sql, row.number),
                tool_calls=[
                    with_offers(call).model_copy(update={"outputs": outputs.get(call.tool_call_id, [])})
                    for call in calls
                ],
                last_seq=journal.last_seq(sql, row.number),
                runs=runs.list_runs(sql, row.number),
            )

        return await self._host.log.read(work)

    async def _run_of(self, tool_call_id: str) -> ActiveRun:
        call = await self._read_call(tool_call_id)
        active = self._active
        if active is None or active.view.run_id != call.run_id:
            raise AlreadyDecided(f"This call is {call.state}; its run is over.", call.model_dump())
        return active

    async def _read_call(self, tool_call_id: str) -> ToolCallView:
        """Raises `UnknownToolCall`."""
        return await self._host.log.read(lambda sql: ledger.read_call(sql, self.row.number, tool_call_id))

    async def _work(self) -> None:
        """Run what is queued, one after another."""
        while self._queue:
            queued = self._queue.popleft()
            self._last = queued
            result = await self._run(queued)
            if not queued.result.done():
                queued.result.set_result(result)

    async def _run(self, queued: QueuedRun) -> RunResult:
        try:
            run = await lifetime.begin(self._host, self.row, queued.spec, queued.view, queued.hands, queued.scripted)
        except AgentKernelError as error:
            queued.begun.set()
            if queued is self._continued:
                return await recovery.close(self._host.log, queued.view, self._host.settings, str(error))
            return await lifetime.end_failed_start(self._host.log, self.row, queued.spec, queued.view, str(error))
        self._active = run
        self._host.active.add(run)
        queued.begun.set()
        try:
            # A rule may have changed between the look at the policy and here.
            await saved_rules.rules_changed([run])
            return await lifetime.carry_out(self._host, run)
        finally:
            self._active = None
            self._host.active.discard(run)
