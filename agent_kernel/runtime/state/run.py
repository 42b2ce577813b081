"""One run while it goes: what its steps share, and how it is stopped.

The log is the truth; this holds what is only of use while the run lives: the model, the futures, the history as the
model gets it.
"""

import asyncio
import sqlite3
from collections import deque
from collections.abc import Callable, Collection, Coroutine, Sequence
from contextvars import Context
from dataclasses import dataclass, field
from typing import Any, TypeVar

from agent_kernel.approvals.broker import Broker
from agent_kernel.approvals.policy import Policy
from agent_kernel.approvals.scripted import ScriptedDecision
from agent_kernel.log.events import START, shown_cards
from agent_kernel.log.inbox import KeptMessage
from agent_kernel.log.runs import ConversationRow, save_run
from agent_kernel.log.store import Log
from agent_kernel.models.base import Model, WireMessage, facts_of
from agent_kernel.protocol.events import ErrorEvent, LoggedEvent, RunEvent, utc_now
from agent_kernel.protocol.views import (
    ErrorView,
    ImageRefs,
    MessageView,
    NoticeView,
    PolicyView,
    RunView,
    ToolCallView,
)
from agent_kernel.protocol.vocabulary import ErrorCode, FinishReason
from agent_kernel.runtime.settings import RunSpec, RuntimeSettings
from agent_kernel.runtime.state.commits import Commit, Commits
from agent_kernel.runtime.state.compaction import LEFT_OUT
from agent_kernel.runtime.state.history import Past, read_history, read_window, wire_message
from agent_kernel.runtime.state.leases import Leases
from agent_kernel.runtime.state.limits import Meter
from agent_kernel.runtime.state.prompts import SYSTEM_PROMPT
from agent_kernel.runtime.state.repeats import Repeats
from agent_kernel.runtime.state.request_images import RequestImages
from agent_kernel.runtime.state.shown import Shown
from agent_kernel.runtime.state.window import Window
from agent_kernel.tools.executor import Outcome, ToolExecutor
from agent_kernel.tools.registry import ToolRegistry
from agent_kernel.tools.scheduler import CallScheduler

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class RunResult:
    """What a finished run leaves: its view, its answer, and its whole transcript."""

    run: RunView
    text: str
    messages: list[MessageView]
    tool_calls: list[ToolCallView]


@dataclass(frozen=True, slots=True)
class RunSetting:
    """Where a run takes place."""

    conversation: ConversationRow
    log: Log
    settings: RuntimeSettings
    model: Model
    policy: Policy
    executor: ToolExecutor | None
    attended: bool
    """False where nobody is there to ask: scripted decisions answer, or else the call is denied."""
    leases: Leases
    context: Context
    """The host's context variables, for tasks that are neither the graph's nor a request's."""
    under_way: Collection["ActiveRun"] = ()
    """The host's runs in memory."""
    scripted: Sequence[ScriptedDecision] = field(default_factory=tuple)


@dataclass(slots=True)
class Step:
    """The step at hand: what the model asked for in its last turn, and what became of it."""

    calls: list[str] = field(default_factory=list)
    """Ids in the model's order; their tool messages are still to be made."""
    proposed: dict[str, ToolCallView] = field(default_factory=dict)
    """Calls as they were proposed, until their task takes them: one read less each."""
    results: dict[str, str] = field(default_factory=dict)
    """What the model is told of the calls that ran to their end."""
    images: dict[str, ImageRefs] = field(default_factory=dict)
    """What those calls showed."""


@dataclass(frozen=True, slots=True)
class Cut:
    """Why Agent Kernel itself has interrupted a call."""

    reason: str
    """A sentence, for the model and for people."""
    failed: bool = False
    """Whether the call ends as an error, because it took too long itself; else it ends as cancelled."""


@dataclass(slots=True)
class Execution:
    """A call that the executor has."""

    approval_id: str
    task: asyncio.Task[Outcome]
    cut: Cut | None = None


LATE_CALLS = 64
"""Calls of a run whose outputs are taken after their end."""


@dataclass(slots=True)
class OpenCalls:
    """The calls whose tasks are at work or wait."""

    tasks: int = 0
    asked: dict[str, ToolCallView] = field(default_factory=dict)
    """Those that wait for a decision, by approval, as they were asked about."""
    started: dict[str, "asyncio.Task[None]"] = field(default_factory=dict)
    """Those that started with their decision: each is carried out by a task of its own, which its node waits for."""
    unknown: set[str] = field(default_factory=set)
    """The digests of the conversation's calls of which nobody knows the outcome."""
    late: deque[object] = field(default_factory=lambda: deque(maxlen=LATE_CALLS))
    """What takes the outputs of the last calls that ended, for as long as the run is in memory: threads that they have
    left behind may show more. The executor only know of them."""

    async def aclose(self) -> None:
        """End what no node waits for any more."""
        for task in self.started.values():
            task.cancel()
        await asyncio.gather(*self.started.values(), return_exceptions=True)


@dataclass(slots=True)
class Person:
    """The person for whom the run as a whole waits: for a larger budget, for a look at an unknown outcome."""

    shown: Shown = field(default_factory=Shown)
    """The conversation's: see `Feed`."""
    asked: Broker[None] = field(default_factory=Broker)
    looked: set[str] = field(default_factory=set)
    """Calls whose outcome is unknown, and for which there is an answer."""
    suspended: bool = False
    """Whether the run waited for the person when it was suspended."""


class ActiveRun:
    """The mutable side of a run. Used in the runtime's event loop only."""

    def __init__(self, spec: RunSpec, setting: RunSetting, view: RunView) -> None:
        self.spec = spec
        self.setting = setting
        self.view = view
        self.policy = setting.policy
        self.policy_lock = asyncio.Lock()
        """Held by those who read what the policy is to be and then put it in force."""
        self.commits = Commits(setting.log, setting.conversation)
        self.registry = ToolRegistry(spec.tools)
        self.scheduler, self.meter = CallScheduler(), Meter.of(view)
        self.scripted = list(setting.scripted)
        self.begun = START
        """A place in the log before the run's beginning."""
        self.prompted = False
        """Whether the prompt is in the log. True from the start for a run that goes on after a restart."""
        self.past: Past | None = Past()
        """What is known of the conversation before the rest is read from the log; `None` from then on."""
        self.history: list[WireMessage] = []
        """All that was said, as it goes to the model where it is not too long: see `window`."""
        self.window = Window()
        self.fixed_tokens: float | None = None
        """About how many tokens of each request are not messages; `None` until it matters."""
        self.call_ids: set[str] = set()
        """The ids that the conversation's calls have had, and the cards of calls that were never finished."""
        self.unwritten: list[dict[str, Any]] = []
        """Tool messages that the model gets and that the next commit of a message writes."""
        self.pictures = RequestImages()
        self.inbox: list[KeptMessage] = []
        self.accepting = True
        """False once the run will look at its inbox no more."""

        self.step = Step()
        self.invalid_steps = 0
        self.repeats = Repeats()
        self.decisions: Broker[ToolCallView | None] = Broker()
        """Calls that wait for a decision; `None` wakes one whose run is suspended."""
        self.answers: Broker[Outcome] = Broker()
        self.person = Person()
        self.open = OpenCalls()
        self.executing: dict[str, Execution] = {}
        self.streaming: asyncio.Task[object] | None = None

        self.suspended = False
        self.stopping: str | None = None
        """Why the run is being stopped; its steps look at it after every wait."""
        self.out_of_time: str | None = None
        """Why nothing may go on until there is more budget: see `runs.time_limit`."""
        self.failure: ErrorView | None = None
        self.last_message_id: str | None = None
        self.finish_reason: FinishReason = "stop"

    @property
    def sends_images(self) -> bool:
        """Whether the model takes pictures, and the site lets it have them."""
        return self.setting.settings.send_images and facts_of(self.setting.model).images

    @property
    def is_ending(self) -> bool:
        """Stopped or failed: it takes no further step."""
        return self.stopping is not None or self.failure is not None

    @property
    def halted(self) -> str | None:
        """Why a call that was about to begin does not, where it does not."""
        return self.stopping or self.out_of_time

    def outside_graph(self, work: Coroutine[Any, Any, T], name: str) -> asyncio.Task[T]:
        """A task without the context variables of the graph, or of a request. What it opens, such as a connection to
        the model that is kept for the next run, would hold this run with all that was said in it."""
        return asyncio.create_task(work, name=name, context=self.setting.context.copy())

    async def stoppable(self, work: Coroutine[Any, Any, T], name: str) -> T | None:
        """Ask the model for something, outside of the graph. `None` where the run was stopped meanwhile."""
        task = self.outside_graph(work, f"{name} {self.view.run_id}")
        self.streaming = task
        try:
            return await task
        except asyncio.CancelledError:
            current = asyncio.current_task()
            if not task.cancelled() or (current is not None and current.cancelling()):
                raise
            return None
        finally:
            self.streaming = None

    def recall(self, sql: sqlite3.Connection) -> None:
        """Read what was said before, unless that was done. For `Log.read`."""
        if self.past is None:
            return
        system = {"role": "system", "content": self.spec.system or SYSTEM_PROMPT}
        self.history = [system, *read_history(sql, self.setting.conversation.number, self.past, self.spec.run_id)]
        self.call_ids = {call["id"] for message in self.history for call in message.get("tool_calls", ())}
        # In a conversation that has just begun nothing was left out.
        fresh = self.past.upto == START and len(self.history) > 1
        self.window = read_window(sql, self.setting.conversation.number) if fresh else self.past.window
        self.window.has_gaps = any(message["role"] == LEFT_OUT for message in self.history)
        self.window.count_pictures(self.sends_images)
        if self.prompted:  # it goes on: cards that were cut off have used ids too
            shown = shown_cards(sql, self.setting.conversation.number, self.view.run_id, self.begun)
            self.call_ids.update(shown)
        self.past = None

    def remember(self, body: dict[str, Any]) -> None:
        """Add a message that is in the log, or on its way there, to what the model gets next."""
        if self.past is not None:
            return  # it will be read with the rest
        self.history.append(wire_message(body))
        self.call_ids.update(call["id"] for call in body.get("tool_calls", ()))

    async def commit(self, work: Callable[[Commit], T]) -> T:
        """See `Commits.write`."""
        return await self.commits.write(work)

    def take_back_answers(self) -> None:
        """The tool messages that are not in the log yet are to be made anew, from the ledger."""
        ids = [body["tool_call_id"] for body in self.unwritten]
        del self.history[len(self.history) - len(ids) :]
        self.unwritten.clear()
        self.step = Step([*ids, *self.step.calls])

    async def emit(self, *events: LoggedEvent) -> None:
        def work(commit: Commit) -> None:
            for event in events:
                commit.emit(event)

        await self.commit(work)

    def save(self, commit: Commit) -> None:
        """Write the run's row and show it."""
        save_run(commit.sql, self.view)
        commit.emit(RunEvent(run_id=self.view.run_id, run=self.view))

    def change(self, **fields: object) -> None:
        """Change the view; `save` writes it."""
        self.view = self.view.model_copy(update=fields)

    def notify(self, content: str) -> None:
        """Tell the user what was done otherwise than asked, once."""
        if any(notice.content == content for notice in self.view.notices):
            return
        notice = NoticeView(content=content, at=utc_now(), steps=self.view.usage.steps)
        self.change(notices=[*self.view.notices, notice])
        self.commits.write_soon(self.save)

    async def show_policy(self, policy: Policy, view: PolicyView) -> None:
        self.policy = policy
        self.change(policy=view)
        await self.commit(self.save)

    def running(self) -> list[str]:
        """The calls that the executor has, or are about to get."""
        return list(dict.fromkeys((*self.executing, *self.open.started)))

    def suspend(self) -> None:
        """Let go of a run that does nothing but wait for decisions: its tasks end, its state is in the log, and the
        first decision takes it up again as a restart of the server would. Does nothing where anything else goes on, or
        where few runs are in memory."""
        if sum(not run.suspended for run in self.setting.under_way) <= self.setting.settings.runs_in_memory:
            return
        waiting = len(self.decisions.waiting()) + len(self.person.asked.waiting())
        if self.setting.leases or self.open.started or self.is_ending or waiting != self.open.tasks:
            return
        self.suspended, self.person.suspended = True, self.is_paused
        for approval_id in self.decisions.waiting():
            self.decisions.resolve(approval_id, None)
        self.wake()

    def note_time(self) -> None:
        """Have the meter stand where the run now does nothing but wait for a person, and run where it does more."""
        if self.suspended:
            return
        waiting = len(self.decisions.waiting()) + len(self.answers.waiting()) + len(self.person.asked.waiting())
        if 0 < waiting == self.open.tasks and not self.open.started:
            self.meter.pause()
        else:
            self.meter.go_on()

    @property
    def is_paused(self) -> bool:
        """Whether the whole run waits for a person, and not only calls of it."""
        return self.person.suspended or self.view.paused is not None or bool(self.person.asked.waiting())

    def wake(self) -> None:
        """Let what the whole run waits for look again at how things stand."""
        for key in self.person.asked.waiting():
            self.person.asked.resolve(key, None)

    async def fail(self, code: ErrorCode, message: str, noted: Callable[[Commit], None] | None = None) -> None:
        """Note why the run ends in error; `noted` adds to the same transaction. The first reason stays."""
        if self.failure is not None:
            return
        self.failure = ErrorView(code=code, message=message)

        def work(commit: Commit) -> None:
            commit.emit(ErrorEvent(run_id=self.view.run_id, code=code, message=message))
            if noted is not None:
                noted(commit)

        await self.commit(work)
