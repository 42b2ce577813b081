"""ActiveRun is the state of one run in memory.

The log is the truth; this holds what is only needed while the run goes: the model, the futures, the transcript.
"""

import asyncio
import sqlite3
from collections.abc import Callable, Collection, Coroutine, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeVar

from agent_kernel.approvals.policy import Policy
from agent_kernel.approvals.scripted import Script, ScriptedDecision
from agent_kernel.log import tool_calls
from agent_kernel.log.event_rows import Position
from agent_kernel.log.message_rows import KeptMessage
from agent_kernel.log.runs import ConversationRow
from agent_kernel.log.store import Log
from agent_kernel.models.base import Delay, Model, facts_of
from agent_kernel.models.redaction import Secrets
from agent_kernel.protocol.events import ErrorEvent, LoggedEvent, utc_now
from agent_kernel.protocol.views import DelayView, ErrorView, NoticeView, PolicyView, RunView, ToolCallView
from agent_kernel.protocol.vocabulary import ErrorCode, FinishReason
from agent_kernel.runtime.settings import RunSpec, RuntimeSettings
from agent_kernel.runtime.state.commits import Commit, commit_to
from agent_kernel.runtime.state.outcome_cache import OutcomeCache, UnseenChanges
from agent_kernel.runtime.state.run_calls import Broker, RunCalls
from agent_kernel.runtime.state.spans import Spans
from agent_kernel.runtime.state.spending import Meter, Repeats
from agent_kernel.runtime.state.transcript import SeenCells, Transcript, Transcripts, lean
from agent_kernel.runtime.tasks import TaskOwner
from agent_kernel.tools.declaration import ToolDeclaration
from agent_kernel.tools.executor import ServerTools, ToolExecutor
from agent_kernel.tools.registry import ToolRegistry

T = TypeVar("T")

_CAUSE_CHARACTERS = 1_000


class ModelSource(Protocol):
    def resolve(self, name: str | None, notebook_path: str | None = None) -> Model:
        """Paths of recordings are relative to the notebook's folder. Raises `NoModelError` or `ConfigurationError`. May
        block: it is called in a thread."""
        ...

    def secrets(self) -> Iterable[str]:
        """The keys and tokens that the host knows."""
        ...


@dataclass(frozen=True, slots=True)
class Resources:
    """Shared by all conversations of a runtime."""

    log: Log
    models: ModelSource
    settings: RuntimeSettings
    attended: bool
    """False where there is no person to ask: scripted decisions answer, or else the call is denied."""
    tasks: TaskOwner
    transcripts: Transcripts = field(default_factory=Transcripts)
    active: set["ActiveRun"] = field(default_factory=set)
    """The runs that are under way, of all conversations. Kept by `RunQueue`."""
    seen_by_clients: dict[str, SeenCells] = field(default_factory=dict)
    """By `ConversationRow.client_home`."""
    unseen_changes: UnseenChanges = field(default_factory=UnseenChanges)
    passwords: list[str] = field(default_factory=list)
    """What was typed for code that asked for a password: never shown, and kept in memory only."""


@dataclass(frozen=True, slots=True)
class ConversationResources:
    """Shared by all runs of a conversation."""

    runtime: Resources
    row: ConversationRow
    shown: asyncio.Event
    """Set once a page has shown the conversation."""
    outcomes: OutcomeCache = field(default_factory=OutcomeCache)
    seen_cells: SeenCells = field(default_factory=SeenCells)


@dataclass(frozen=True, slots=True)
class StartingPoint:
    """The position at which a run continues; that of a new one is its beginning."""

    begun: Position
    """A place in the log before the run's beginning."""
    transcript: Transcript
    prompted: bool = False
    """Whether the prompt is in the log."""
    step: Sequence[str] = ()
    """The ids of the calls of its step that no tool message in the log answers."""
    messages: Sequence[KeptMessage] = ()
    unknown: Collection[str] = ()
    """The digests of the conversation's calls whose outcome is unknown."""


class ActiveRun:
    """Used in the runtime's event loop only."""

    def __init__(
        self,
        shared: ConversationResources,
        spec: RunSpec,
        model: Model,
        executor: ToolExecutor | None,
        view: RunView,
        policy: Policy,
        start: StartingPoint,
    ) -> None:
        self._specify(spec, lean_set=view.lean)
        self.run_id = spec.run_id
        self.conversation, self.shown, self.outcomes = shared.row, shared.shown, shared.outcomes
        self.seen_cells = shared.seen_cells
        self.log, self.settings, self.attended = shared.runtime.log, shared.runtime.settings, shared.runtime.attended
        self.model, self.executor = model, executor
        self.server_tools: ServerTools | None = (
            getattr(model, "server_tools", None) or shared.runtime.settings.server_tools
        )
        """Carries out the calls of tools of MCP servers. A recording has their results, and no server is asked."""
        self.unseen_changes = shared.runtime.unseen_changes
        self._shared = shared
        self.begun, self.prompted = start.begun, start.prompted
        self.meter, self.repeats, self.spans = Meter.of(view), Repeats(), Spans()
        self.transcript = start.transcript
        self.calls = RunCalls(start.step, start.unknown)
        self.waits: Broker[None] = Broker()
        """Of the whole run: for a larger budget, an answer about an unknown outcome, or a page."""
        self.inbox, self.inbox_is_open = list(start.messages), True
        """Messages for its next model call, and whether it reads more. The log has them too."""
        self.view = view
        """As the log has it, or is about to: see `commit_view` and `save_soon`."""
        self.policy = policy
        self.policy_lock = asyncio.Lock()
        """Held by those who read what the policy is to be and then put it in force."""
        self.script = Script(spec.script)
        self.script_turn = asyncio.Lock()
        """Held by a call while it is judged and takes its decision from the script, so that calls take theirs in the
        model's order."""
        self._decisions: dict[str, ScriptedDecision] = {}
        self._invalid_steps, self._tasks = 0, 0
        """`_tasks`: those that work or wait, one per call, and one where the whole run waits for a person."""
        self._streaming: asyncio.Task[object] | None = None
        self._delay: Delay | None = None
        self._slow: asyncio.TimerHandle | None = None
        """What `view.delay` shows, and the timer that shows that the model is slow."""

        self.last_message_id: str | None = None
        self.finish_reason: FinishReason = "stop"
        """Of the model's last answer."""
        self.prompt_is_refused = False
        """Whether it ended because the prompt itself is too long for the model: later requests go without it."""
        self.stopping: str | None = None
        """Why the run is being stopped, which its steps look at after every wait."""
        self.out_of_time: str | None = None
        """Why nothing may go on until there is more budget: the time of its budget is used up."""
        self.failure: ErrorView | None = None

    def _specify(self, spec: RunSpec, *, lean_set: bool) -> None:
        self.spec = spec
        self._sent = lean(spec) if lean_set else spec
        """What of the specification the model is sent."""
        self.registry = ToolRegistry(self._sent.tools, lean=lean_set)

    def add_tools(self, tools: Iterable[ToolDeclaration]) -> None:
        """Offer more tools from the next request on."""
        self._specify(replace(self.spec, tools=(*self.spec.tools, *tools)), lean_set=self.view.lean)

    # What the log has of it.

    async def commit(self, work: Callable[[Commit], T]) -> T:
        """Run `work` as one transaction, after all earlier ones."""
        return await commit_to(self.log, self.conversation, work)

    async def commit_view(self, work: Callable[[Commit, RunView], T], **fields: object) -> T:
        """Change the view, and commit `work`, which writes it. Where that fails the view is as it was, so that it says
        nothing that the log does not."""
        before = {name: getattr(self.view, name) for name in fields}
        self.change(**fields)
        view = self.view
        try:
            return await self.commit(lambda commit: work(commit, view))
        except Exception:
            self.change(**before)
            raise

    def save_soon(self, **fields: object) -> None:
        """Change the view, and have it written without waiting; where that fails, with the next turn or the end."""
        self.change(**fields)
        view = self.view
        saving = commit_to(self.log, self.conversation, lambda commit: commit.save_run(view))
        saving.add_done_callback(lambda written: written.exception())  # so that nobody misses it

    async def emit(self, *events: LoggedEvent) -> None:
        def work(commit: Commit) -> None:
            for event in events:
                commit.emit(event)

        await self.commit(work)

    async def read_call(self, tool_call_id: str) -> ToolCallView:
        return await self.log.read(lambda sql: tool_calls.read_call(sql, self.conversation.number, tool_call_id))

    async def read_calls(self) -> list[ToolCallView]:
        """All calls of the run, in the order in which they were proposed."""
        return await self.log.read(lambda sql: tool_calls.list_calls(sql, run_id=self.run_id))

    def change(self, **fields: object) -> None:
        """Change the view, which the next commit of it writes."""
        self.view = self.view.model_copy(update=fields)

    def notify(self, content: str) -> None:
        """Add a notice about something that was done otherwise than asked, unless it is there already."""
        if any(notice.content == content for notice in self.view.notices):
            return
        self.save_soon(notices=[*self.view.notices, self.notice(content)])

    def notice(self, content: str, detail: str = "") -> NoticeView:
        return NoticeView(content=content, detail=detail, at=utc_now(), steps=self.view.usage.steps)

    # Its policy, and answers written beforehand.

    async def show_policy(self, policy: Policy, view: PolicyView) -> None:
        """Put a policy in force, and commit what is shown of it."""
        self.policy = policy
        await self.commit_view(Commit.save_run, policy=view)

    def note_decision(self, tool_call_id: str, decision: ScriptedDecision) -> None:
        """Keep what a person or a script decided, for `take_decisions`. Called by `tool_calls`; the first one stays."""
        self._decisions.setdefault(tool_call_id, decision)

    def take_decisions(self, tool_call_ids: Sequence[str]) -> list[ScriptedDecision]:
        """The decisions on the calls of a step that ended, in the model's order. Called by `turns`."""
        return [self._decisions.pop(one) for one in tool_call_ids if one in self._decisions]

    # Its model.

    @property
    def sends_images(self) -> bool:
        """Whether the model takes pictures, and the site lets it have them."""
        return self.settings.send_images and facts_of(self.model).images

    @property
    def secrets(self) -> Secrets:
        """What is replaced in everything that is read with nobody asked."""
        return Secrets((*self._shared.runtime.models.secrets(), *self.passwords))

    @property
    def passwords(self) -> Sequence[str]:
        """What was typed for code that asked for a password, in any run of this process."""
        return self._shared.runtime.passwords

    def hide_password(self, text: str) -> None:
        if text not in self.passwords:
            self._shared.runtime.passwords.append(text)

    def recall(self, sql: sqlite3.Connection) -> None:
        """Read what was said before. Called by `runs` as the run begins or goes on, on the log's thread."""
        cards_after = self.begun if self.prompted else None
        self.transcript.recall(sql, self.conversation.number, self._sent, cards_after=cards_after)

    def count_invalid_steps(self, *, invalid: bool) -> int:
        """Count a step of the model. How many in a row were nothing but invalid calls."""
        self._invalid_steps = self._invalid_steps + 1 if invalid else 0
        return self._invalid_steps

    def outside_graph(self, work: Coroutine[Any, Any, T], name: str) -> asyncio.Task[T]:
        """A task without the context variables of the graph, or of a request. What it opens, such as a connection to
        the model that is kept for the next run, would hold this run with all that was said in it."""
        return asyncio.create_task(work, name=name, context=self._shared.runtime.tasks.context.copy())

    async def stoppable(self, work: Coroutine[Any, Any, T], name: str) -> T | None:
        """Ask the model for something, outside of the graph. `None` where it was cut off meanwhile."""
        task = self.outside_graph(work, f"{name} {self.run_id}")
        self._streaming = task
        slow = Delay("slow", self.settings.slow_seconds, 1, None, "")
        self._slow = timer = asyncio.get_running_loop().call_later(slow.seconds, self.delayed, slow)
        try:
            return await task
        except asyncio.CancelledError:
            current = asyncio.current_task()
            if not task.cancelled() or (current is not None and current.cancelling()):
                raise
            return None
        finally:
            self._streaming = None
            timer.cancel()

    def delayed(self, delay: Delay | None) -> None:
        """Show that the model is asked again, or slow, or, with `None`, that it answers."""
        if self._slow is not None:
            self._slow.cancel()
        before, self._delay = self._delay, delay
        if delay is None and before is None:
            return
        if delay is not None and before is not None and delay.kind == before.kind == "loading":
            return  # it is asked every other second
        self.save_soon(delay=None if delay is None else _shown(delay))

    def hurry(self) -> None:
        """Have the model asked again now, where that waits."""
        if self._delay is None or self._delay.hurry.is_set():
            return
        self._delay.hurry.set()
        if self.view.delay is not None and self.view.delay.until is not None:
            self.save_soon(delay=self.view.delay.model_copy(update={"until": utc_now()}))

    def cut_off_model(self) -> None:
        if self._streaming is not None:
            self._streaming.cancel()

    # Its waits.

    @contextmanager
    def task(self) -> Iterator[None]:
        """Counts a task of the run that works, or waits."""
        self._tasks += 1
        self.note_time()
        try:
            yield
        finally:
            self._tasks -= 1
            self.note_time()

    def note_time(self) -> None:
        """Have the meter stand where the run now does nothing but wait for a person, and run where it does more."""
        if self.view.paused is not None:
            return
        waiting = self.calls.waiting + len(self.waits.waiting())
        if 0 < waiting == self._tasks:
            self.meter.pause()
        else:
            self.meter.go_on()

    async def wait_for_person(self, answer: "asyncio.Future[Any]") -> bool:
        """Whether there is an answer within the site's time for answers."""
        self.note_time()
        try:
            await asyncio.wait({answer}, timeout=self.settings.approval_seconds)
            return answer.done()
        finally:
            answer.cancel()
            self.note_time()

    @property
    def is_paused(self) -> bool:
        """Whether the whole run waits for a person, and not only calls of it."""
        return self.view.paused is not None or bool(self.waits.waiting())

    # Its end.

    @property
    def is_ending(self) -> bool:
        """Stopped or failed: it takes no further step."""
        return self.stopping is not None or self.failure is not None

    @property
    def takes_messages(self) -> bool:
        """Whether a message that comes now is part of the run's next model call."""
        return self.inbox_is_open and not self.is_ending

    @property
    def halted(self) -> str | None:
        """Why a call that was about to begin does not, where it does not."""
        return self.stopping or self.out_of_time

    async def fail(self, code: ErrorCode, message: str, noted: Callable[[Commit], None] | None = None) -> None:
        """Note why the run ends in error; `noted` adds to the same transaction. The first reason stays."""
        if self.failure is not None:
            return
        self.failure = ErrorView(code=code, message=message)

        def work(commit: Commit) -> None:
            commit.emit(ErrorEvent(run_id=self.run_id, code=code, message=message))
            if noted is not None:
                noted(commit)

        await self.commit(work)


def _shown(delay: Delay) -> DelayView:
    until = None if delay.kind in ("loading", "slow") else utc_now(delay.seconds)
    since = utc_now(-delay.seconds if delay.kind == "slow" else 0.0)
    cause = delay.cause[:_CAUSE_CHARACTERS]
    return DelayView(kind=delay.kind, since=since, until=until, attempt=delay.attempt, tries=delay.tries, cause=cause)
