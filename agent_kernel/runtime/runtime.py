"""The runtime: all conversations of one host, over one log."""

import asyncio
import sqlite3
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Self

from agent_kernel.approvals.rules import Rule
from agent_kernel.errors import KernelGone, TooManyConversations, UndoRefused, UnknownConversation
from agent_kernel.log import client_calls, event_rows, runs, stored_images, tool_calls
from agent_kernel.log.audit import read_entries
from agent_kernel.log.measures import read_metrics, read_report
from agent_kernel.log.runs import ConversationRow
from agent_kernel.log.saved_rules import all_rules
from agent_kernel.log.store import AuditListener, Log, MeasureListener, Transaction
from agent_kernel.protocol.commands import Decision
from agent_kernel.protocol.ids import new_conversation_id
from agent_kernel.protocol.lists import (
    ClientView,
    ListedCall,
    ListedRule,
    ListedRun,
    RunUndoneView,
    UndoneView,
    UsageReport,
)
from agent_kernel.protocol.metrics import MetricsReport
from agent_kernel.protocol.run_results import RunResult
from agent_kernel.protocol.views import ImageRefs, RunView, ToolCallView
from agent_kernel.protocol.vocabulary import DecidedBy, UnknownAnswer
from agent_kernel.runtime.clients.snapshot import ENDED_RUNS, read_calls, read_list, read_runs
from agent_kernel.runtime.conversation import Conversation, ExecutorFor, Kernels
from agent_kernel.runtime.runs import recovery, undo
from agent_kernel.runtime.runs.queue import RunHandle
from agent_kernel.runtime.runs.specs import restored
from agent_kernel.runtime.runs.stop import Stop, sent_away
from agent_kernel.runtime.settings import DEFAULTS, RunSpec, RuntimeSettings
from agent_kernel.runtime.state.active_run import ModelSource, Resources
from agent_kernel.runtime.tasks import TaskOwner
from agent_kernel.runtime.tool_calls import decisions

MOST_EMPTY = 1_000
"""The most conversations without a run."""
EMPTY_FOR = timedelta(minutes=10)
"""A conversation that had no run in this time, and that no client follows, makes room for a new one."""


@dataclass(frozen=True, slots=True)
class Recovered:
    """The runs that an earlier process left open."""

    continued: list[tuple[RunSpec, Conversation, RunHandle]]
    ended: list[tuple[RunSpec, Conversation, RunResult]]


class Runtime:
    """Owns the log, the conversations and their tasks. Use `Runtime.open`; close with `aclose`.

    All methods are coroutines for the event loop in which the runtime was opened.
    """

    def __init__(self, resources: Resources) -> None:
        self._resources = resources
        self._log = resources.log
        self._kernels = Kernels()
        self._conversations: dict[str, Conversation] = {}
        self._loading = asyncio.Lock()
        self._arrival = asyncio.Condition(self._loading)
        self._closed = False

    @classmethod
    async def open(
        cls,
        log_path: Path | None,
        models: ModelSource,
        settings: RuntimeSettings = DEFAULTS,
        *,
        attended: bool = True,
    ) -> Self:
        """Open the log (in memory where `log_path` is `None`). Runs that were left open wait for `recover`.

        `attended=False` where nobody can be asked: see `agent_kernel.approvals.scripted`.
        Raises `ConfigurationError`.
        """
        log = await Log.open(log_path)
        return cls(Resources(log, models, settings, attended, TaskOwner()))

    @property
    def has_log_alone(self) -> bool:
        """Whether no other process can have the log open meanwhile: see `agent_kernel.log.opening`."""
        return self._log.alone

    @property
    def log_fault(self) -> str | None:
        """Why nothing can be decided any more, where the log was changed or pulled away under this process."""
        return self._log.fault

    def listen_to_audit(self, listener: AuditListener) -> None:
        """Pass new audit entries to `listener`, after each commit."""
        self._log.listen_to_audit(listener)

    def listen_to_measures(self, listener: MeasureListener) -> None:
        """Pass what becomes of calls, turns and runs to `listener`, after each commit."""
        self._log.listen_to_measures(listener)

    @property
    def open_runs(self) -> int:
        """The number of runs that are under way here."""
        return len(self._resources.active)

    async def recover(self, executor_for: ExecutorFor) -> Recovered:
        """Continue the runs that an earlier process left open. Call it once, before anything else.

        Runs whose kernel is gone are ended; those of conversations without a kernel continue. `executor_for` is also
        called when an earlier run is tried again.
        """
        self._kernels.executor_for = executor_for
        recovered = Recovered([], [])
        log = self._log
        for run in await recovery.interrupted_runs(log):
            conversation = await self.conversation(run.conversation_id)
            try:
                spec = restored(await log.read(partial(runs.read_spec, run_id=run.run_id)), run.prompt)
            except ValueError:  # one run that can't be read does not keep the others, and the resources, from starting
                result = await recovery.close(log, conversation.row, run, self._resources.settings, recovery.UNREADABLE)
                recovered.ended.append((RunSpec(run_id=run.run_id, prompt=run.prompt), conversation, result))
                continue
            needs_kernel = conversation.kernel_id is not None or spec.client_call is not None
            executor = await executor_for(conversation, spec) if needs_kernel else None
            if executor is None and needs_kernel:
                result = await recovery.close(log, conversation.row, run, self._resources.settings)
                recovered.ended.append((spec, conversation, result))
            else:
                await recovery.prepare(log, conversation.row, run)
                recovered.continued.append((spec, conversation, conversation.continue_run(spec, run, executor)))
        return recovered

    async def aclose(self) -> None:
        """End all tasks and close the log. At the next start `recover` continues the runs that were under way."""
        async with self._arrival:
            self._closed = True
            self._arrival.notify_all()
        await self._resources.tasks.aclose()
        for conversation in self._conversations.values():
            conversation.close()
        await self._log.aclose()

    async def create_conversation(
        self,
        *,
        kernel_id: str | None = None,
        model: str | None = None,
        conversation_id: str | None = None,
        notebook_path: str | None = None,
    ) -> Conversation:
        """A new conversation, or the one that has this id already. Raises `TooManyConversations`."""
        async with self._loading:
            if conversation_id is not None:
                with suppress(UnknownConversation):
                    return await self._load(conversation_id)
            await self._make_room()
            wanted = conversation_id or new_conversation_id()
            row = await self._log.write(
                lambda t: runs.add_conversation(t.sql, wanted, kernel_id, model, notebook_path),
            )
            made = self._remember(Conversation(self._resources, self._kernels, row, 0))
            self._arrival.notify_all()
            return made

    async def client_conversation(
        self, client: str, user: str | None, *, notebook_path: str | None, kernel_id: str | None = None
    ) -> Conversation:
        """A conversation of a client in a notebook, or in a kernel that has none, in which nothing goes on: a call does
        not wait for an earlier one. A new one where all are busy."""
        async with self._loading:
            rows = await self._log.read(
                lambda sql: client_calls.conversations_of(sql, client, user, notebook_path, kernel_id)
            )
            for row in rows:
                known = await self._load(row.conversation_id)
                if not known.is_busy:
                    return known
            new = new_conversation_id()
            home = rows[0].client_home if rows else new
            row = await self._log.write(
                lambda t: runs.add_conversation(
                    t.sql, new, kernel_id, None, notebook_path, client=client, client_user=user, client_home=home
                )
            )
            return self._remember(Conversation(self._resources, self._kernels, row, 0))

    async def row_of(self, conversation_id: str) -> ConversationRow:
        """A conversation as the log has it, with the present path of its notebook. Raises `UnknownConversation`."""
        return await self._log.read(lambda sql: runs.read_conversation(sql, conversation_id))

    async def undelivered_call(self, home: str, tool_name: str, digest: str) -> str | None:
        """The run of a client's last call with these arguments, if its result was never delivered."""
        return await self._log.read(lambda sql: client_calls.undelivered(sql, home, tool_name, digest))

    async def note_delivery(self, run_id: str) -> None:
        """A client was sent the result of its call."""
        await self._log.write(lambda t: client_calls.note_delivery(t.sql, run_id))

    async def calls_with_pictures(self, run: RunView) -> list[tuple[ToolCallView, ImageRefs, dict[str, str]]]:
        """The calls of a run, each with references to the pictures that it showed, and these by their digests."""
        number = (await self.conversation(run.conversation_id)).row.number

        def read(sql: sqlite3.Connection) -> list[tuple[ToolCallView, ImageRefs, dict[str, str]]]:
            calls = tool_calls.list_calls(sql, run_id=run.run_id)
            shown = stored_images.shown_by(sql, number, [call.tool_call_id for call in calls])
            refs = [shown.get(call.tool_call_id, []) for call in calls]
            found = [stored_images.read(sql, number, {ref["digest"] for ref in one}) if one else {} for one in refs]
            return list(zip(calls, refs, found, strict=True))

        return await self._log.read_apart(read)

    async def list_clients(self) -> list[ClientView]:
        """The agents outside that have asked for calls, by notebook, in the order in which they came."""
        return await self._log.read_apart(decisions.read_clients)

    async def send_client_away(self, client_id: str, *, decided_by: str | None = None) -> None:
        """As `Conversation.send_client_away`, by the id in the list of clients. Raises `UnknownConversation`."""
        if (await self.row_of(client_id)).client_home != client_id:
            raise UnknownConversation(client_id)
        rows = await self._log.read(lambda sql: client_calls.conversations_at(sql, client_id))
        await (await self.conversation(client_id)).send_client_away(decided_by=decided_by)
        for row in rows:
            await (await self.conversation(row.conversation_id)).stop_all(sent_away(decided_by))

    async def audit(self, after: int) -> bytes:
        """The audit entries after a number, as a JSON array, the newest first."""
        entries = await self._log.read_apart(lambda sql: [entry.text for entry in read_entries(sql, after)])
        return f"[{','.join(reversed(entries))}]".encode()

    async def _make_room(self) -> None:
        """Delete conversations that never had a run, where there are too many of them."""
        empty = await self._log.read(lambda sql: runs.empty_conversations(sql, MOST_EMPTY))
        if len(empty) < MOST_EMPTY:
            return
        before = (datetime.now(UTC) - EMPTY_FOR).isoformat()
        held = {name for name, one in self._conversations.items() if one.is_watched or one.is_busy}
        idle = [name for name, made in empty if made < before and name not in held]
        if not idle:
            raise TooManyConversations(
                f"There are {MOST_EMPTY} conversations in which nothing was ever asked. Start a run in one of them, or "
                "delete some (DELETE conversations/ID); those that nobody looks at are forgotten after "
                f"{EMPTY_FOR.seconds // 60} minutes."
            )
        for name in idle:
            if (known := self._conversations.pop(name, None)) is not None:
                known.close()

        def forget(transaction: Transaction) -> None:
            for name in idle:
                runs.delete_conversation(transaction.sql, name)

        await self._log.write(forget)

    async def conversation(self, conversation_id: str) -> Conversation:
        """Raises `UnknownConversation`."""
        async with self._loading:
            return await self._load(conversation_id)

    async def wait_for_conversation(self, conversation_id: str, seconds: float) -> Conversation:
        """A conversation that is perhaps just being created. Raises `UnknownConversation` after this many seconds."""
        async with self._arrival:
            with suppress(UnknownConversation):
                return await self._load(conversation_id)
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._arrival.wait_for(lambda: self._closed or conversation_id in self._conversations)
            if (arrived := self._conversations.get(conversation_id)) is None:
                raise UnknownConversation(conversation_id)
            return arrived

    async def _load(self, conversation_id: str) -> Conversation:
        """Called under the lock: a second object for a conversation would take the log's events from the first."""
        known = self._conversations.get(conversation_id)
        if known is not None:
            return known
        row, last = await self._log.read(
            lambda sql: (
                row := runs.read_conversation(sql, conversation_id),
                event_rows.last_seq(sql, row.number),
            )
        )
        return self._remember(Conversation(self._resources, self._kernels, row, last))

    async def list_conversations(self, *, after: str | None = None, limit: int = -1) -> bytes:
        """The conversations as a JSON array, the oldest first. `after` is the id of the one before the first, `limit`
        how many at most. Raises `UnknownConversation`."""
        return await self._log.read_apart(lambda sql: read_list(sql, after=after, limit=limit))

    async def delete_conversation(self, conversation_id: str, *, decided_by: str | None = None) -> None:
        """Stop its runs and remove it from the log; the audit trail stays. Raises `UnknownConversation`,
        `CarriedOutElsewhere`."""
        conversation = await self.conversation(conversation_id)
        await conversation.refuse_elsewhere()
        await conversation.stop_all(Stop(decided_by=decided_by))
        conversation.close()
        del self._conversations[conversation_id]
        self._resources.transcripts.take(conversation.row.number)
        await self._log.write(lambda t: runs.delete_conversation(t.sql, conversation_id))

    async def list_calls(self, state: str | None = None) -> list[ListedCall]:
        """Calls in a state, or all, with their notebook, kernel, cell and prompt. `unanswered` are those of open runs
        with an unknown outcome and no answer."""
        return await self._log.read_apart(lambda sql: read_calls(sql, state))

    async def list_runs(self, ended: int = ENDED_RUNS, run_id: str | None = None) -> list[ListedRun]:
        """All open runs, the last `ended` of those that have ended, and `run_id`, of any conversation, oldest first."""
        return await self._log.read_apart(lambda sql: read_runs(sql, ended, run_id))

    async def rename_notebooks(self, old: str, new: str) -> None:
        """Follow the renaming of a notebook, or of a folder with notebooks."""
        await self._log.write(lambda t: runs.rename_notebooks(t.sql, old, new))

    async def list_rules(self) -> list[ListedRule]:
        """The site's rules, and those that people saved, the oldest first."""
        site = [
            ListedRule(tool_name=Rule.parse(text).tool, text=text, origin="site")
            for text in self._resources.settings.site_rules
        ]
        return [*site, *await self._log.read_apart(all_rules)]

    async def remove_rule(self, rule_id: str, *, decided_by: str | None = None) -> None:
        """Remove a saved rule, also from the active runs. Raises `UnknownRule`."""
        await self._log.write(
            lambda t: decisions.remove_rule(t.sql, rule_id, decided_by, user_rules=self._resources.settings.user_rules)
        )
        await decisions.rules_changed(self._resources.active)

    async def route_decision(
        self, approval_id: str, decision: Decision, *, decided_by: str | None = None
    ) -> ToolCallView:
        """Raises `UnknownApproval`, `AlreadyDecided`, `DigestMismatch`, `InvalidArguments`."""
        call = await self.find_call(approval_id)
        conversation = await self.conversation(call.conversation_id)
        return await conversation.route_decision(approval_id, decision, decided_by=decided_by)

    async def answer_unknown(
        self, approval_id: str, answer: UnknownAnswer, *, decided_by: str | None = None
    ) -> ToolCallView:
        """Answer about a call with an unknown outcome. Raises `UnknownApproval`, `AlreadyDecided`,
        `IllegalTransition`."""
        call = await self.find_call(approval_id)
        conversation = await self.conversation(call.conversation_id)
        return await conversation.answer_unknown(call.tool_call_id, answer, decided_by=decided_by)

    async def undo(
        self, approval_id: str, *, redo: bool = False, by: DecidedBy = "user", decided_by: str | None = None
    ) -> ToolCallView:
        """Restore the file or cell that a call changed, or change it again, during its run or after it. Raises
        `UnknownApproval`, `IllegalTransition`, `UndoRefused`, `KernelGone`."""
        call = await self.find_call(approval_id)
        conversation = await self.conversation(call.conversation_id)
        await conversation.undo_call(call.tool_call_id, redo=redo, by=by, decided_by=decided_by)
        return await self.find_call(approval_id)

    async def undo_run(
        self, run_id: str, *, redo: bool = False, by: DecidedBy = "user", decided_by: str | None = None
    ) -> RunUndoneView:
        """Undo what a run's calls have changed in files and cells, the last change first, where that is still as the
        run left it; to `redo`, make the changes that were undone again, the first change first. Raises `UnknownRun`,
        `CarriedOutElsewhere`."""
        conversation = await self.conversation((await self.run(run_id)).conversation_id)
        number = conversation.row.number
        calls = await self._log.read(lambda sql: tool_calls.list_calls(sql, conversation=number, run_id=run_id))
        changes: list[UndoneView] = []
        changed = undo.changes_of(calls)
        for call in reversed(changed) if redo else changed:
            refusal = None
            if call.undone == redo:
                try:
                    await conversation.undo_call(call.tool_call_id, redo=redo, by=by, decided_by=decided_by)
                except (UndoRefused, KernelGone) as error:
                    refusal = str(error)
            changes.append(undo.undone_view(call, refusal))
        return RunUndoneView(run_id=run_id, changes=tuple(changes))

    async def find_call(self, approval_id: str) -> ToolCallView:
        """Raises `UnknownApproval`."""
        return await self._log.read(lambda sql: tool_calls.find_approval(sql, approval_id))

    async def run(self, run_id: str) -> RunView:
        """Raises `UnknownRun`."""
        return await self._log.read(lambda sql: runs.read_run(sql, run_id))

    async def run_of_widget(self, widget_model_id: str) -> RunView | None:
        """The run that a widget shows, if the log has it."""
        return await self._log.read(lambda sql: runs.run_of_widget(sql, widget_model_id))

    async def usage(self, days: int) -> UsageReport:
        """The usage of the last `days` days, today included."""
        return await self._log.read_apart(lambda sql: read_report(sql, days))

    async def metrics(self, days: int) -> MetricsReport:
        """The measures of the last `days` days, today included."""
        return await self._log.read_apart(lambda sql: read_metrics(sql, days))

    async def counts(self) -> Mapping[str, int]:
        """The numbers of conversations and waiting calls."""
        return await self._log.read(
            lambda sql: {
                "conversations": runs.count_conversations(sql),
                "awaiting_approval": tool_calls.count_waiting(sql),
            }
        )

    def _remember(self, conversation: Conversation) -> Conversation:
        return self._conversations.setdefault(conversation.conversation_id, conversation)
