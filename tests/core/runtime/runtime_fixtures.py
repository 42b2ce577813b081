"""A runtime over a real log, with an executor that runs functions of the test."""

import asyncio
import inspect
import json
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import pytest

from agent_kernel.errors import ToolFailed
from agent_kernel.log import audit
from agent_kernel.log.store import Log
from agent_kernel.models.base import Model, ModelFacts
from agent_kernel.protocol.calls import ApprovedCall, Outcome, Place, ToolVerdict, WallsFound
from agent_kernel.protocol.commands import Decision
from agent_kernel.protocol.events import (
    ApprovalRequestEvent,
    Event,
    RunEvent,
    ServerEvent,
    ToolCompleteEvent,
    server_event_adapter,
)
from agent_kernel.protocol.file_cards import CellCard, FileCard
from agent_kernel.protocol.ids import new_run_id
from agent_kernel.protocol.kernel import EnvironmentDescribed, Mention
from agent_kernel.protocol.run_results import RunResult
from agent_kernel.protocol.views import OutputView, RunView, ToolCallView
from agent_kernel.protocol.vocabulary import Approval
from agent_kernel.runtime.clients.feed import Subscription
from agent_kernel.runtime.conversation import Conversation
from agent_kernel.runtime.runs.queue import RunHandle
from agent_kernel.runtime.runtime import Runtime
from agent_kernel.runtime.settings import RunSpec, RuntimeSettings
from agent_kernel.runtime.state.active_run import ActiveRun, Resources
from agent_kernel.runtime.tasks import TaskOwner
from agent_kernel.testing import ScriptedModel
from agent_kernel.testing.scripted_model import ScriptedTurn
from agent_kernel.tools.builtin.declarations import BUILTIN_TOOLS
from agent_kernel.tools.declaration import ToolDeclaration
from agent_kernel.tools.executor import OutputSink

RUN_PYTHON = ToolDeclaration(
    "run_python",
    "Run Python.",
    {"type": "object", "properties": {"code": {"type": "string"}}, "required": ["code"], "additionalProperties": False},
)
LOOK = ToolDeclaration("look", "Look.", {"type": "object", "properties": {}}, approval="allow", read_only=True)
ASK_USER = next(tool for tool in BUILTIN_TOOLS if tool.name == "ask_user")
T = TypeVar("T")
E = TypeVar("E", bound=Event)
YES, NO = Decision(approved=True), Decision(approved=False)
Act = Callable[[ApprovedCall, OutputSink], object]
"""What a call does: its result, or what is awaited for it."""


@dataclass
class FunctionExecutor:
    """Runs a function per call, and remembers what it ran."""

    act: Act = lambda call, emit: "ok"
    ran: list[ApprovedCall] = field(default_factory=list)
    interrupted: list[str] = field(default_factory=list)
    approval: Approval = "ask"
    edits: bool = False
    """What is said of whether a file is one that the mode `edit` covers."""
    card: FileCard | None = None
    walls: WallsFound | None = None
    links: dict[str, str] = field(default_factory=dict)
    """Where paths lead that are links; the others are files in `/work`."""
    behind: int | None = None
    kept: set[str] = field(default_factory=set)
    undone: list[str] = field(default_factory=list)
    files: dict[str, bytes] = field(default_factory=dict)
    mentions: dict[str, Mention] = field(default_factory=dict)
    environment: str = "Notebook: test.ipynb"
    version: str | None = "as it was"

    def name_of(self, approval_id: str) -> str:
        """What the model calls a call that was run."""
        return next(ran.tool_call_id for ran in self.ran if ran.approval_id == approval_id)

    async def execute(self, call: ApprovedCall, emit: OutputSink) -> Outcome:
        self.ran.append(call)
        result = self.act(call, emit)
        if inspect.isawaitable(result):
            result = await result
        if isinstance(result, Outcome):
            return result
        emit(OutputView(kind="stream", name="stdout", text=str(result)))
        return Outcome("success", str(result))

    async def interrupt(self, approval_id: str) -> bool:
        self.interrupted.append(self.name_of(approval_id))
        return True

    async def tool_verdict(self, tool_name: str, arguments_json: str) -> ToolVerdict:
        path = str(json.loads(arguments_json).get("path", "."))
        real = self.links.get(path, f"/home/ana/{path}")
        inside = real.removeprefix("/home/ana/") if real.startswith("/home/ana/") else None
        place = Place(path=real, inside=inside, linked=path in self.links)
        return ToolVerdict(self.approval, place, self.edits, self.walls)

    async def state_version(self) -> str | None:
        return self.version

    async def waiting_behind(self, approval_id: str) -> int | None:
        return self.behind

    async def undo(self, approval_id: str, *, redo: bool = False) -> None:
        if approval_id in self.kept:
            self.undone.append(self.name_of(approval_id))
        else:
            raise ToolFailed("The file was changed since.")

    async def preview(self, tool_name: str, arguments_json: str, place: Place | None) -> FileCard | None:
        return self.card

    async def cell_card(self, tool_name: str, arguments_json: str, seen: str | None) -> CellCard:
        return CellCard()

    async def read_picture(self, address: str) -> bytes:
        if address not in self.files:
            raise ToolFailed("there is no such file in the notebook's folder")
        return self.files[address]

    async def read_mentions(self, names: Sequence[str]) -> tuple[Mention, ...]:
        return tuple(self.mentions[name] for name in names if name in self.mentions)

    async def describe_environment(self) -> EnvironmentDescribed:
        return EnvironmentDescribed(text=self.environment)


class InterruptibleExecutor(FunctionExecutor):
    """A call runs until it is interrupted; it says when it has begun."""

    def __init__(self) -> None:
        super().__init__(self._wait)
        self._interrupted = asyncio.Event()

    async def _wait(self, call: ApprovedCall, emit: OutputSink) -> Outcome:
        emit(OutputView(kind="stream", name="stdout", text="begun"))
        await self._interrupted.wait()
        return Outcome("cancelled", "KeyboardInterrupt")

    async def interrupt(self, approval_id: str) -> bool:
        self._interrupted.set()
        return await super().interrupt(approval_id)


class OneModel:
    """A model source with one model."""

    def __init__(self, model: Model, secrets: tuple[str, ...] = ()) -> None:
        self.model = model
        self._secrets = secrets

    def resolve(self, name: str | None, notebook_path: str | None = None) -> Model:
        return self.model

    def secrets(self) -> tuple[str, ...]:
        return self._secrets


class Stage:
    """A runtime, one conversation, and the events seen so far.

    A test says what the model says (the turns of the stage), starts a run and decides what it asks (`run`, or `asking`
    and `decide`), then looks at its result, the events (`of`), the calls that ran, the log and the model's requests.
    """

    def __init__(
        self, runtime: Runtime, resources: Resources, conversation: Conversation, executor: FunctionExecutor
    ) -> None:
        self.handles: list[RunHandle] = []
        """In the next life of a stage: the runs that go on there."""
        self.runtime = runtime
        self.conversation = conversation
        self.executor = executor
        self.log = resources.log
        self.path: Path | None = None
        self.events: list[ServerEvent] = []
        self._resources = resources
        self._subscription = conversation.subscribe(0)
        self._changed, self._closed = asyncio.Event(), False
        self._reader = asyncio.create_task(self._read(self._subscription))

    async def _read(self, frames: Subscription) -> None:
        async for frame in frames:
            self.events.append(server_event_adapter.validate_json(frame))
            self._changed.set()

    async def start(self, prompt: str = "Go", **spec: Any) -> RunHandle:
        """Start a run; `spec` are further fields of `RunSpec`."""
        spec.setdefault("tools", (RUN_PYTHON, LOOK))
        return await self.conversation.start_run(RunSpec(run_id=new_run_id(), prompt=prompt, **spec), self.executor)

    async def until(self, condition: Callable[[], T]) -> T:
        """Wait until the events seen make the condition true; returns its value."""
        async with asyncio.timeout(60):
            while not (value := condition()):
                self._changed.clear()
                await self._changed.wait()
            return value

    async def until_runs(self, tool_call_id: str | None = None) -> None:
        """Wait until the executor has a call, or this call."""
        async with asyncio.timeout(60):
            while not [ran for ran in self.executor.ran if tool_call_id in (None, ran.tool_call_id)]:  # noqa: ASYNC110 -- the executor tells nobody
                await asyncio.sleep(0)

    async def run(self, prompt: str = "Go", *decisions: Decision, **spec: Any) -> RunResult:
        """Start a run, decide what it asks, in this order, and wait for its end."""
        before = len(self.of(ApprovalRequestEvent))
        handle = await self.start(prompt, **spec)
        for number, decision in enumerate(decisions, before + 1):
            await self.decide(decision, number)
        return await handle.wait()

    async def asking(
        self, count: int = 1, prompt: str = "Go", **spec: Any
    ) -> tuple[RunHandle, list[ApprovalRequestEvent]]:
        """Start the first run, and wait until it asks so often."""
        return await self.start(prompt, **spec), await self.requests(count)

    async def decide(
        self, decision: Decision, request: ApprovalRequestEvent | int = 1, *, decided_by: str | None = None
    ) -> ApprovalRequestEvent:
        """Decide a request, or that of a number once it is there."""
        asked = (await self.requests(request))[-1] if isinstance(request, int) else request
        await self.conversation.route_decision(asked.approval_id, decision, decided_by=decided_by)
        return asked

    async def approve(
        self, request: ApprovalRequestEvent | int = 1, *, decided_by: str | None = None
    ) -> ApprovalRequestEvent:
        return await self.decide(YES, request, decided_by=decided_by)

    async def deny(self, request: ApprovalRequestEvent | int = 1) -> ApprovalRequestEvent:
        return await self.decide(NO, request)

    def roles(self, number: int = -1) -> list[str]:
        """Of the messages of a request to the model."""
        return [str(message["role"]) for message in self.model.requests[number].messages]

    def told(self, number: int = -1) -> list[str]:
        """What a request to the model says of the results of calls."""
        return [str(one["content"]) for one in self.model.requests[number].messages if one["role"] == "tool"]

    async def calls(self) -> list[ToolCallView]:
        """Those of the conversation, as the log has them."""
        return (await self.conversation.view()).tool_calls

    @property
    def model(self) -> ScriptedModel:
        """The scripted model of its runs."""
        assert isinstance(self._resources.models, OneModel)
        assert isinstance(self._resources.models.model, ScriptedModel)
        return self._resources.models.model

    def of(self, kind: type[E]) -> list[E]:
        """The events of this kind."""
        return [event for event in self.events if isinstance(event, kind)]

    async def requests(self, count: int = 1) -> list[ApprovalRequestEvent]:
        """The first `count` approval requests."""
        await self.until(lambda: len(self.of(ApprovalRequestEvent)) >= count)
        return self.of(ApprovalRequestEvent)[:count]

    async def audit(self) -> list[dict[str, Any]]:
        """The entries of the audit trail, whose chain is whole."""

        def read(sql: sqlite3.Connection) -> list[dict[str, Any]]:
            assert audit.check(sql) is None
            return [entry.fields for entry in audit.read_entries(sql)]

        return await self.log.read(read)

    def use(self, model: Model) -> None:
        """Runs from now on have this model."""
        assert isinstance(self._resources.models, OneModel)
        self._resources.models.model = model

    @property
    def runs(self) -> list[ActiveRun]:
        """Those that are under way."""
        return list(self._resources.active)

    async def set_read_only(self, on: bool) -> None:
        """Have the log take nothing that is asked for from now on, or take it again."""
        await self.log.read(lambda sql: sql.execute(f"PRAGMA query_only = {int(on)}").fetchall())

    async def until_paused(self) -> None:
        """Until a run as a whole waits for a person, which makes no sound."""
        async with asyncio.timeout(60):
            while not any(run.is_paused for run in self.runs):  # noqa: ASYNC110
                await asyncio.sleep(0.005)

    def forget_history(self) -> None:
        """What was said is in the log only from now on, as after a while or a restart."""
        self._resources.transcripts.take(self.conversation.row.number)

    async def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._subscription.close()
            await self._reader
            await self.runtime.aclose()


Stages = Callable[..., Awaitable[Stage]]
"""Opens stages, as `stage` does, and closes them at the end of the test."""


def states(result: RunResult) -> dict[str, str]:
    """Of a run's calls."""
    return {one.tool_call_id: one.state for one in result.tool_calls}


def run_view(stage: Stage) -> RunView:
    """The last run, as its clients were told of it at last."""
    return stage.of(RunEvent)[-1].run


async def until_paused(stage: Stage) -> str:
    """Wait until a run is at its budget; the pause's id, which an answer names."""
    await stage.until(lambda: stage.of(RunEvent) and run_view(stage).paused)
    paused = run_view(stage).paused
    assert paused is not None
    return paused.pause_id


async def until_unknown(stage: Stage) -> str:
    """Wait for a call whose outcome is unknown: its id."""
    ended = await stage.until(lambda: [event for event in stage.of(ToolCompleteEvent) if event.state == "unknown"])
    return ended[0].tool_call_id


async def stage(
    model: Model,
    path: Path | None = None,
    executor: FunctionExecutor | None = None,
    *,
    attended: bool = True,
    secrets: tuple[str, ...] = (),
    **settings: Any,
) -> Stage:
    chosen = RuntimeSettings(**{"pause_at_repeats": False, "slow_seconds": 600.0} | settings)
    resources = Resources(await Log.open(path), OneModel(model, secrets), chosen, attended, TaskOwner())
    runtime = Runtime(resources)
    conversation = await runtime.create_conversation(kernel_id="k", notebook_path="work/test.ipynb")
    conversation.client_came()
    one = Stage(runtime, resources, conversation, executor or FunctionExecutor())
    one.path = path
    return one


@asynccontextmanager
async def second_life(
    before: Stage,
    *turns: ScriptedTurn,
    facts: ModelFacts | None = None,
    model: Model | None = None,
    models: type[OneModel] = OneModel,
    executor: FunctionExecutor | None = None,
    kernel: bool = True,
) -> AsyncIterator[Stage]:
    """The conversation of a stage whose process ended, in the next one, where runs go on unless the kernel is gone."""
    await before.close()
    assert before.path is not None
    # No page comes: a run asks nobody about an unknown outcome.
    settings = RuntimeSettings(client_seconds=0.1, pause_at_repeats=False, slow_seconds=600.0)
    script = ScriptedModel(turns, facts=facts)
    resources = Resources(await Log.open(before.path), models(model or script), settings, True, TaskOwner())
    runtime, executor = Runtime(resources), executor or FunctionExecutor()

    async def executor_for(_: Conversation, __: RunSpec) -> FunctionExecutor | None:
        return executor if kernel else None

    handles = [handle for _, _, handle in (await runtime.recover(executor_for)).continued]
    conversation = await runtime.conversation(before.conversation.conversation_id)
    again = Stage(runtime, resources, conversation, executor)
    again.path, again.handles = before.path, handles
    yield again
    await again.close()
    script.assert_consumed()


@pytest.fixture
async def stages() -> AsyncIterator[Stages]:
    """In place of a model, stages take the turns of a scripted one (with these `facts`), which all have to be asked
    for."""
    opened: list[Stage] = []
    scripted: list[ScriptedModel] = []

    async def make(model: Model | Sequence[ScriptedTurn], *, facts: ModelFacts | None = None, **options: Any) -> Stage:
        if isinstance(model, Sequence):
            model = ScriptedModel(model, facts=facts)
            scripted.append(model)
        opened.append(await stage(model, **options))
        return opened[-1]

    yield make
    for one in opened:
        await one.close()
    for model in scripted:
        model.assert_consumed()
