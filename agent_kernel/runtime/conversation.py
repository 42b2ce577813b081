"""A conversation: its runs, one after another, and the operations that clients may request."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace

from agent_kernel.approvals.scripted import ScriptedDecision
from agent_kernel.errors import (
    AlreadyDecided,
    CarriedOutElsewhere,
    IllegalTransition,
    InvalidArguments,
    KernelGone,
    LogUnavailable,
    UnknownApproval,
    UnknownRun,
)
from agent_kernel.log import message_rows, runs, tool_calls
from agent_kernel.log import stored_images as pictures
from agent_kernel.log.runs import ConversationRow
from agent_kernel.protocol.calls import Outcome
from agent_kernel.protocol.commands import Decision
from agent_kernel.protocol.events import ErrorEvent
from agent_kernel.protocol.run_results import RunProgress
from agent_kernel.protocol.views import ConversationView, ImageRefs, PolicySwitchView, RunView, ToolCallView
from agent_kernel.protocol.vocabulary import BudgetLimits, DecidedBy, PolicyMode, UnknownAnswer, standing
from agent_kernel.runtime.clients.feed import Feed, Subscription
from agent_kernel.runtime.clients.snapshot import Snapshot, read_progress, read_snapshot
from agent_kernel.runtime.runs import lifecycle, recovery, server_offer
from agent_kernel.runtime.runs import stop as stopping
from agent_kernel.runtime.runs.queue import RunHandle, RunQueue
from agent_kernel.runtime.runs.specs import LastRun, before_restart, next_spec, restored, with_server_tools
from agent_kernel.runtime.runs.stop import BY_A_PERSON, Stop
from agent_kernel.runtime.runs.undo import Undo
from agent_kernel.runtime.settings import RunSpec
from agent_kernel.runtime.state.active_run import ActiveRun, Resources
from agent_kernel.runtime.state.commits import Commit, commit_to
from agent_kernel.runtime.tool_calls import decisions
from agent_kernel.runtime.tool_calls.shown_images import prepare_one
from agent_kernel.runtime.turns import pauses
from agent_kernel.runtime.turns.model_turn import take_message
from agent_kernel.tools.builtin.declarations import BUILTIN_TOOLS
from agent_kernel.tools.declaration import ToolDeclaration
from agent_kernel.tools.executor import ToolExecutor
from agent_kernel.tools.server_tools import START_SERVERS

KERNEL_LOST = "The notebook's kernel is no longer there. Start it again, and ask in a cell of the notebook."


ExecutorFor = Callable[["Conversation", RunSpec], Awaitable[ToolExecutor | None]]
"""Finds the executor for a run of a conversation; `None` where its kernel is gone."""


@dataclass(slots=True)
class Kernels:
    """Finds executors for runs that have none in memory. Written by `Runtime.recover`."""

    executor_for: ExecutorFor | None = None
    """`None` where the host has no kernels."""


class Conversation:
    """Made by `Runtime`. All methods are for the runtime's event loop."""

    def __init__(self, resources: Resources, kernels: Kernels, row: ConversationRow, last_seq: int) -> None:
        self.row = row
        self.conversation_id, self.kernel_id = row.conversation_id, row.kernel_id
        self._resources = resources
        self._log = resources.log
        self._kernels = kernels
        self._feed = Feed(resources.log, row.number, row.conversation_id, last_seq)
        self._queue = RunQueue(resources, row, self._feed)
        self._undoing = asyncio.Lock()
        self.on_retry: Callable[[RunSpec, RunHandle], None] | None = None
        """Called with a run that is tried again, so that the host follows it to its end."""

    @property
    def last_seq(self) -> int:
        return self._feed.last_seq

    @property
    def is_watched(self) -> bool:
        """Whether a client or a kernel is subscribed."""
        return self._feed.is_followed

    @property
    def is_busy(self) -> bool:
        """Whether a run is under way or queued."""
        return self._queue.is_busy

    def subscribe(self, after_seq: int | None = None) -> Subscription:
        """Committed events after `after_seq`, or from now on."""
        return self._feed.subscribe(after_seq)

    def client_came(self) -> None:
        """A client shows this conversation, so that its runs may wait for a person."""
        self._feed.shown.set()

    def close(self) -> None:
        self._feed.close()

    async def start_run(
        self,
        spec: RunSpec,
        executor: ToolExecutor | None,
        *,
        scripted: Sequence[ScriptedDecision] = (),
        asked_by: str | None = None,
    ) -> RunHandle:
        """Queue a run and return at once. Runs of one conversation go one after another. `scripted` stands in place of
        the specification's script."""
        await self._end_pause(asked_by)
        if scripted:
            spec = replace(spec, script=tuple(scripted))
        spec = await with_server_tools(self._resources.settings, self.row, spec)
        view = lifecycle.queued_view(self._resources, self.row, spec)
        await lifecycle.save_queued(self._log, self.row, spec, view, behind=self._queue.is_busy)
        return self._queue.add(spec, view, executor)

    async def start_undeclared(self, asked: RunSpec, *, asked_by: str | None = None) -> RunHandle:
        """Start a run that no cell declares, with the built-in tools where there is a kernel. Raises `KernelGone`."""
        await self.refuse_elsewhere()
        executor = await self._find_executor(asked)
        tools = BUILTIN_TOOLS if executor is not None else ()
        return await self.start_run(replace(asked, tools=(*tools, *asked.tools)), executor, asked_by=asked_by)

    def continue_run(self, spec: RunSpec, view: RunView, executor: ToolExecutor | None) -> RunHandle:
        """Continue a run that an earlier process left open."""
        return self._queue.add(spec, view, executor)

    async def retry_run(self, run_id: str) -> RunHandle:
        """Try the last run again, which ended because the model failed. Raises `UnknownRun`, `AlreadyDecided`,
        `KernelGone`."""
        await self._own_run(run_id)
        spec = await recovery.read_spec(self._log, self.row, run_id)
        executor = await self._find_executor(spec, self._queue.last)
        handle = self.continue_run(spec, await recovery.reopen(self._log, self.row, run_id), executor)
        if self.on_retry is not None:
            self.on_retry(spec, handle)
        return handle

    async def send_message(
        self,
        content: str,
        *,
        decided_by: str | None = None,
        message_id: str | None = None,
        images: ImageRefs | None = None,
        changed: Callable[[RunSpec], RunSpec] = lambda spec: spec,
    ) -> str:
        """The `message` command. During a run the message supersedes waiting calls and is part of the next model call;
        else it starts a run with the tools of the last one, with its specification `changed`. `images` were made by
        `keep_pictures`. Returns the run's id."""
        await self._end_pause(decided_by)
        return await self._send(content, decided_by, message_id, images or [], changed)

    async def _send(
        self,
        content: str,
        decided_by: str | None,
        message_id: str | None = None,
        images: ImageRefs | None = None,
        changed: Callable[[RunSpec], RunSpec] = lambda spec: spec,
    ) -> str:
        if self.row.client is not None:
            raise IllegalTransition(f"Only {self.row.client} asks in this conversation: it has to send its call again.")
        active = await self._queue.begun_run()
        if active is not None and active.takes_messages and await take_message(active, content, message_id, images):
            await stopping.supersede(active, decided_by)
            return active.run_id
        last = await self._last_run()
        chosen = await self._log.read(lambda sql: runs.chosen_policy(sql, self.row.number))
        spec = changed(next_spec(last, content, chosen))
        spec = replace(spec, prompt_id=message_id, prompt_images=images or [])
        started = self.start_run(spec, last.executor) if last is not None else self.start_undeclared(spec)
        return (await started).run_id

    async def keep_pictures(self, raw: Sequence[bytes]) -> ImageRefs:
        """Store pictures that are sent with a message, in their form for models. Raises `NoPicture`."""
        prepared = await asyncio.to_thread(lambda: [prepare_one(one, sent=True) for one in raw])
        data = {digest: picture for one in prepared for digest, picture in one.data.items()}
        await self._log.write(lambda t: pictures.keep(t.sql, self.row.number, data))
        return [ref for one in prepared for ref in one.refs]

    async def prompt_images(self, message_id: str | None = None) -> dict[str, ImageRefs]:
        """References to the pictures in messages of the user, by their ids: in all, or in one."""
        return await self._log.read_apart(lambda sql: message_rows.prompt_images(sql, self.row.number, message_id))

    async def pictures(self, refs: ImageRefs) -> dict[str, str]:
        """Pictures in base64, by digest."""
        digests = {ref["digest"] for ref in refs}
        return await self._log.read_apart(lambda sql: pictures.read(sql, self.row.number, digests))

    async def seq_before_run(self, message_id: str | None) -> int:
        """The last event before the prompt of the run that a message belongs to; of the newest run where there is no
        such message."""
        return await self._log.read_apart(lambda sql: message_rows.seq_before_run(sql, self.row.number, message_id))

    async def has_ended(self, run_id: str) -> bool:
        """Whether a run is over. Raises `UnknownRun`."""
        return (await self._log.read(lambda sql: runs.read_run(sql, run_id))).ended_at is not None

    async def _last_run(self) -> LastRun | None:
        """Without its tools where its kernel is gone. `None` where there was no run."""
        last = self._queue.last
        if last is None:
            return await before_restart(self._log, self.row.number, self._find_executor)
        try:
            # No cell has declared what is asked next, so none has to be there still.
            await self._find_executor(replace(last.spec, widget_model_id=None), last)
        except KernelGone:
            return last.without_tools()
        return last

    async def _find_executor(self, spec: RunSpec, last: LastRun | None = None) -> ToolExecutor | None:
        """A run's executor: the kernel's, where the host has kernels; else the last run's. Raises `KernelGone`."""
        executor_for = self._kernels.executor_for
        if executor_for is None or (self.kernel_id is None and spec.client_call is None):
            return last.executor if last is not None else None
        executor = await executor_for(self, spec)
        if executor is None:
            raise KernelGone(KERNEL_LOST)
        return executor

    async def route_decision(
        self, approval_id: str, decision: Decision, *, decided_by: str | None = None, by: DecidedBy = "user"
    ) -> ToolCallView:
        """A person's decision, or one that stands in for it. Raises `UnknownApproval`, also for another conversation's,
        `AlreadyDecided` also where its run is over, `DigestMismatch`, `InvalidArguments`, `CarriedOutElsewhere`."""
        active = await self._queue.begun_run()
        call = await self._log.read(lambda sql: tool_calls.find_approval(sql, approval_id))
        if call.conversation_id != self.conversation_id:
            raise UnknownApproval(approval_id)
        if call.tool_name == START_SERVERS:
            settings = self._resources.settings
            return await server_offer.decide(self._log, self.row, settings, call, decision, decided_by)
        if active is None or active.run_id != call.run_id:
            await self.refuse_elsewhere()
            raise tool_calls.already_decided(call)
        decided = await decisions.record_decision(active, call, decision, decided_by, by)
        if decision.approved and decision.scope != "once":
            await decisions.rules_changed(self._resources.active)
        return decided

    async def remove_rule(self, rule_id: str, *, decided_by: str | None = None, by: DecidedBy = "user") -> None:
        """Remove an always-allow rule that covers this conversation. Calls that have not started are judged without it.
        Raises `UnknownRule`."""
        kept = self._resources.settings.user_rules
        active = await self._queue.begun_run()
        run_id = active.run_id if active is not None else ""
        await self._log.write(
            lambda t: decisions.remove_rule(t.sql, rule_id, decided_by, self.row, run_id, by=by, user_rules=kept)
        )
        await decisions.rules_changed(self._resources.active)

    async def send_client_away(self, *, decided_by: str | None = None) -> None:
        """See `decisions.send_away`. Its call here is stopped."""
        await self._log.write(lambda t: decisions.send_away(t.sql, self.row, decided_by))
        await self.stop_all(stopping.sent_away(decided_by))
        await decisions.rules_changed(self._resources.active)

    async def switch_policy(
        self, mode: PolicyMode, *, decided_by: str | None = None, decide_waiting: bool = False
    ) -> PolicySwitchView:
        """Switch the policy of the active run, and of later prompts that name none. Raises `InvalidArguments` for a
        mode above the site's cap, `CarriedOutElsewhere`."""
        settings = self._resources.settings
        decisions.refuse_above(settings, mode)
        await self.refuse_elsewhere()
        active = await self._queue.begun_run()
        decisions.refuse_above(settings, mode, active)
        switched = await decisions.switch_policy(
            self._log, settings, self.row, active, mode, decided_by, decide=decide_waiting
        )
        begun = self._queue.active
        if begun is not None and begun is not active:  # it has read the policy before the switch
            await decisions.rules_changed([begun])
        return switched

    async def switch_instructions(self, file: str, *, off: bool) -> None:
        """Switch a file of the active run's instructions off or on, for the next prompts. Raises `InvalidArguments`
        where no run is under way that has it, `CarriedOutElsewhere`."""
        await self.refuse_elsewhere()
        active = await self._queue.begun_run()
        if active is None or all(one.file != file for one in active.view.instructions):
            raise InvalidArguments("No run is under way that has this file. Nothing was changed.", field="file")
        changed = [one.model_copy(update={"off": off}) if one.file == file else one for one in active.view.instructions]
        await active.commit_view(Commit.save_run, instructions=changed)

    async def raise_budget(
        self,
        run_id: str,
        pause_id: str,
        add: BudgetLimits,
        *,
        without_usd: bool = False,
        decided_by: str | None = None,
    ) -> None:
        """Let a paused run continue with a larger budget. Raises `UnknownRun`, `AlreadyDecided`,
        `InvalidArguments`."""
        active = await self._queue.begun_run()
        if active is None or active.run_id != run_id:
            raise pauses.refused(await self._own_run(run_id), pause_id)
        await pauses.raise_budget(active, pause_id, add, decided_by, without_usd=without_usd)

    async def end_paused(self, run_id: str) -> None:
        """End a paused run that has nobody to answer. Does nothing for any other."""
        active = await self._queue.begun_run()
        if active is not None and active.run_id == run_id:
            await pauses.end_paused(active)

    async def _end_pause(self, decided_by: str | None) -> None:
        """End a pause for a new message: unknown outcomes go to the model, and a run at its budget ends."""
        if self._queue.is_paused:
            active = await self._queue.begun_run()
            if active is not None:
                await pauses.continue_all(active, decided_by)
                await pauses.end_for_new_message(active, decided_by)

    async def try_now(self, run_id: str) -> None:
        """Ask the model's service again without the rest of a run's delay. A run without one stays as it is. Raises
        `UnknownRun`, `CarriedOutElsewhere`."""
        active = self._queue.active
        if active is None or active.run_id != run_id:
            await self._own_run(run_id)
        else:
            active.hurry()

    async def cancel_run(self, run_id: str, stop: Stop = BY_A_PERSON) -> None:
        """Stop a run, or take it out of the queue. A run that has ended stays as it is. Raises `UnknownRun`."""
        queued = self._queue.take_out(run_id)
        if queued is not None:
            try:
                ended = await lifecycle.end_unstarted(self._log, self.row, queued.view, stop)
            except LogUnavailable:
                self._queue.put_back(queued)  # nothing was cancelled
                raise
            queued.result.set_result(ended)
            return
        active = await self._queue.begun_run()
        if active is not None and active.run_id == run_id:
            await stopping.stop_run(active, stop)
            return
        await self._own_run(run_id)

    async def _own_run(self, run_id: str) -> RunView:
        """Raises `UnknownRun`, also for another conversation's, and `CarriedOutElsewhere`."""
        view = await self._log.read(lambda sql: runs.read_run(sql, run_id))
        if view.conversation_id != self.conversation_id:
            raise UnknownRun(run_id)
        await self.refuse_elsewhere()
        return view

    async def stop_all(self, stop: Stop) -> None:
        """Stop the active run and empty the queue."""
        for queued in self._queue.waiting_runs():
            await self.cancel_run(queued.spec.run_id, stop)
        active = await self._queue.begun_run()
        if active is not None:
            await stopping.stop_run(active, stop)
        await self._queue.until_idle()

    async def cancel_call(self, tool_call_id: str, stop: Stop = BY_A_PERSON) -> None:
        """Cancel one call. Raises `UnknownToolCall`, `IllegalTransition` where it has ended."""
        await stopping.cancel_call(await self._run_of(tool_call_id), tool_call_id, stop)

    async def answer_unknown(
        self, tool_call_id: str, answer: UnknownAnswer, *, decided_by: str | None = None
    ) -> ToolCallView:
        """Answer about a call of the active run with an unknown outcome. Returns the call as it is then.
        Raises `UnknownToolCall`, `AlreadyDecided`, `IllegalTransition`."""
        run = await self._run_of(tool_call_id)
        await pauses.answer(run, await self._read_call(tool_call_id), answer, decided_by)
        self.client_came()
        return await self._read_call(tool_call_id)

    async def retry_call(self, tool_call_id: str, *, outside: bool = False, decided_by: str | None = None) -> str:
        """Have the model propose an ended call again, which then needs an approval, and is given no stored outcome; a
        shell command also `outside` its walls. Returns the run's id.

        Raises `UnknownToolCall`, `IllegalTransition` for a call that has not ended, `AlreadyDecided`.
        """
        call = await self._read_call(tool_call_id)
        if outside:
            call = pauses.outside_walls(call)
        if call.state in tool_calls.UNFINISHED:
            raise IllegalTransition(f"The call has not ended yet. {standing(call.state)} Nothing was changed.")
        active = await self._queue.begun_run()
        asked = call.state == "unknown" and call.unknown_answer is None
        if asked and active is not None and active.run_id == call.run_id:
            await pauses.answer(active, call, "retry", decided_by)
            return call.run_id
        self._queue.outcomes.forget((call.tool_name, call.digest))
        return await self._send(pauses.retry_text(call), decided_by)

    async def undo_call(
        self, tool_call_id: str, *, redo: bool = False, by: DecidedBy = "user", decided_by: str | None = None
    ) -> None:
        """Restore the file or cell that a call changed, or change it again, during its run or after it. Raises
        `UnknownToolCall`, `IllegalTransition`, `UndoRefused`, `KernelGone`, `CarriedOutElsewhere`."""
        active = await self._queue.begun_run()
        if active is None:
            await self.refuse_elsewhere()
            last = await self._last_run()
            executor = last.executor if last is not None else None
        else:
            executor = active.executor
        async with self._undoing:
            undo = Undo(await self._read_call(tool_call_id), by, decided_by, redo)
            await undo.carry_out(self._resources, self.row, executor)
        now = self._queue.active
        if now is not None and now.takes_messages and await take_message(now, undo.message):
            return
        if self._queue.is_busy:
            # Not between the last messages of the run that is just ending.
            self._resources.tasks.spawn(self._log_undo(undo), f"word of an undo in {self.conversation_id}")
        else:
            await self._log_undo(undo)

    async def _log_undo(self, undo: Undo) -> None:
        await self._queue.until_idle()
        await commit_to(self._log, self.row, undo.log_message)

    async def tool_result(self, tool_call_id: str, output: str, *, failed: bool = False) -> None:
        """A client's answer to a call that waits for one; `failed` if the client's own tool did.
        Raises `UnknownToolCall`, `AlreadyDecided`."""
        active = await self._run_of(tool_call_id)
        if not active.calls.answers.resolve(tool_call_id, Outcome("error" if failed else "success", output)):
            call = await self._read_call(tool_call_id)
            raise AlreadyDecided(f"This call waits for no answer. {standing(call.state)}", call.model_dump())

    async def kernel_interrupted(self, run_id: str | None, stop: Stop) -> None:
        """The kernel was interrupted: stop this run if it is one of this conversation, or all runs without an id."""
        if run_id is None:
            await self.stop_all(stop)
            return
        with contextlib.suppress(UnknownRun, CarriedOutElsewhere):
            await self.cancel_run(run_id, stop)

    async def kernel_gone(self, reason: str, *, restarting: bool, by_user: bool = False) -> None:
        """The kernel died (`restarting`: it comes back by itself), or was restarted or shut down, which is no failure
        where done `by_user`. Waiting calls are cancelled; unless the kernel comes back by itself, the runs end."""
        active = await self._queue.begun_run()
        if active is None or active.executor is None:
            return
        if restarting:
            await active.emit(ErrorEvent(run_id=active.run_id, code="KERNEL_DIED", message=reason))
            await stopping.withdraw(active, "cancelled", reason)
            return
        if by_user:
            stop = Stop(reason, by=None, notice=f"Stopped, because {reason[:1].lower()}{reason[1:]}")
        else:
            await active.fail("KERNEL_DIED", f"{reason}{stopping.what_ran(await active.read_calls())}")
            stop = Stop(reason, by=None)
        for queued in self._queue.waiting_runs():
            await self.cancel_run(queued.spec.run_id, stop)
        await stopping.stop_run(active, stop)

    async def tools(self) -> tuple[ToolDeclaration, ...]:
        """The tools that the newest run offers; before the first run, those of a prompt that no cell declares."""
        stored = await self._log.read(lambda sql: runs.last_spec(sql, self.row.number))
        if stored is None:
            return BUILTIN_TOOLS if self.kernel_id is not None else ()
        return restored(stored, prompt="").tools

    async def snapshot(self) -> Snapshot:
        """The whole conversation, calls with their outputs, and from where events go on."""
        return await self._log.read_apart(lambda sql: read_snapshot(sql, self.conversation_id))

    async def view(self) -> ConversationView:
        """The whole conversation, calls with their outputs."""
        return (await self.snapshot()).view

    async def progress(self, run_id: str) -> RunProgress:
        """The progress of an open run of this conversation. Raises `UnknownRun`."""
        return await self._log.read(lambda sql: read_progress(sql, self.row.number, run_id))

    async def _run_of(self, tool_call_id: str) -> ActiveRun:
        """The active run, if this call is one of its. Raises `UnknownToolCall`, `AlreadyDecided`."""
        active = await self._queue.begun_run()
        call = await self._read_call(tool_call_id)
        if active is None or active.run_id != call.run_id:
            await self.refuse_elsewhere()
            raise AlreadyDecided(f"The run of this call is over. {standing(call.state)}", call.model_dump())
        return active

    async def refuse_elsewhere(self) -> None:
        """Raises `CarriedOutElsewhere` where another server on the same log carries out a run of this conversation."""
        await self._log.read(lambda sql: runs.refuse_elsewhere(sql, self.row.number))

    async def _read_call(self, tool_call_id: str) -> ToolCallView:
        """Raises `UnknownToolCall`."""
        return await self._log.read(lambda sql: tool_calls.read_call(sql, self.row.number, tool_call_id))
