"""The host of a kernel that no server with the extension serves: the runtime in a background thread of this process."""

import asyncio
import atexit
import contextlib
import dataclasses
import importlib.util
import json
import logging
import os
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from pathlib import Path
from typing import Any, TypeVar, cast

from pydantic import BaseModel

from agent_kernel.approvals.folder_file import read_limits
from agent_kernel.approvals.scripted import ScriptedDecision, approval_mode, unattended_decisions
from agent_kernel.approvals.user_rules import UserRules
from agent_kernel.errors import AgentKernelError, AlreadyDecided, UnknownRun
from agent_kernel.execution.kernel_executor import KernelCalls, KernelExecutor
from agent_kernel.execution.link import KernelLink
from agent_kernel.instructions import read_instructions
from agent_kernel.log.opening import LOG_VARIABLE
from agent_kernel.models.resolver import ModelResolver
from agent_kernel.notebook.execution.tracebacks import cell_names, render
from agent_kernel.notebook.hosts.live_view import LiveView, LiveViews, show_record
from agent_kernel.notebook.hosts.own_connection import OwnConnection, PlainConnection
from agent_kernel.notebook.hosts.own_model import OwnModel
from agent_kernel.notebook.hosts.widget_channel import WidgetChannel
from agent_kernel.notebook.kernel.environment import (
    is_attended,
    kernel_of,
    notebook_path,
    own_instructions_folder,
    user_rules_path,
)
from agent_kernel.notebook.kernel.run_state import RunState
from agent_kernel.notebook.kernel.state import KernelState
from agent_kernel.notebook.offered_tools import FOLDER
from agent_kernel.own_thread import in_own_thread
from agent_kernel.protocol.commands import Decision
from agent_kernel.protocol.kernel_events import (
    Answer,
    AnswerT,
    AskMetrics,
    AskModels,
    AskRemoveRule,
    AskServers,
    AskUndoRun,
    AskUsage,
    AskWaitingRuns,
    Question,
    WaitingRun,
    WaitingRuns,
)
from agent_kernel.protocol.lists import ServersView
from agent_kernel.protocol.run_results import RunResult
from agent_kernel.protocol.views import RunView
from agent_kernel.protocol.vocabulary import StopCause
from agent_kernel.runtime.clients.feed import Subscription
from agent_kernel.runtime.conversation import Conversation
from agent_kernel.runtime.runs.queue import RunHandle
from agent_kernel.runtime.runs.stop import stop_for
from agent_kernel.runtime.runtime import Runtime
from agent_kernel.runtime.settings import RunSpec, RuntimeSettings
from agent_kernel.runtime.tasks import TaskOwner

T = TypeVar("T")
logger = logging.getLogger(__name__)
CLIENT_SECONDS = 10.0
NO_CLIENT = (
    f"Nobody could be asked: no page showed this run's cards within {CLIENT_SECONDS:g} s. The notebook needs the "
    "Jupyter widgets, or a server with the extension agent_kernel_server."
)
CLOSE_SECONDS = 5.0
SEND_IMAGES_VARIABLE = "AGENT_KERNEL_SEND_IMAGES"
"""Set to `no`, it keeps plots and prompts' pictures from models, as a server's `send_images` does."""


@dataclasses.dataclass(frozen=True, slots=True)
class HostedRun:
    """A run that the runtime of this process executes, or could try again."""

    run: RunState
    conversation: Conversation
    channel: WidgetChannel | None
    lock: asyncio.Lock = dataclasses.field(default_factory=asyncio.Lock)
    """Held until `run` has been told of its end: a page may try it again before that."""


class EmbeddedHost:
    """One per kernel process. The runtime and its thread start with the first run and end with the process."""

    blocks = True

    def __init__(self, state: KernelState) -> None:
        """Raises `ConfigurationError` for an environment that is not valid."""
        self._approves = approval_mode(os.environ)  # once: code that a run executes can't change it for the next one
        self._state = state
        self._views = LiveViews()
        self._hosted: dict[str, HostedRun] = {}
        self._shown: set[str] = set()
        """Runs whose cards or record have been displayed."""
        self._loop = asyncio.new_event_loop()
        self._runtime: Runtime | None = None
        self._opening = asyncio.Lock()
        self._models = ModelResolver(environ=os.environ)
        self._own_models: list[OwnModel] = []
        self._calls = KernelCalls(logger)
        self._connection: OwnConnection | PlainConnection | None = None
        self._link: KernelLink | None = None
        self._tasks = TaskOwner()
        self._thread = threading.Thread(target=self._loop.run_forever, name="agent-kernel-runtime", daemon=True)
        self._thread.start()
        atexit.register(self._close)

    def start(self, run: RunState) -> None:
        for run_id in self._views.on_start(run.conversation_id, run.run_id):
            self._loop.call_soon_threadsafe(self._release, run_id)
        attended = self._attended()
        channel: WidgetChannel | None = None
        if attended:
            view = LiveView(self._state.shell, run, "kernel")
            view.open()
            self._views.views[run.run_id] = view
            run.shown_by(view.model_id, prompt_in_cell=view.prompt_in_cell)
            channel = WidgetChannel(view.widget, self._loop, self._tasks)
            channel.attach()
            view.show()
        self._submit(self._execute(run, channel, attended))

    def cancel(self, run: RunState, cause: StopCause) -> None:
        self._submit(self._cancel(run, cause))

    def show_here(self, run: RunState) -> bool:
        return self._views.show_here(run.run_id)

    def on_end(self, end: RunResult) -> None:
        run_id = end.run.run_id
        if run_id in self._views.views:
            self._shown.add(run_id)
        hosted = self._hosted.get(run_id)
        channel = hosted.channel if hosted is not None else None
        if self._views.on_end(end, may_stay=channel is not None):
            self._loop.call_soon_threadsafe(self._release, run_id)
        elif channel is not None and not channel.seen.is_set():
            self._submit(self._give_up_unseen(run_id, channel))

    def on_retry(self, run: RunState) -> None:
        self._views.on_retry(run.run_id)

    def on_waited(self, run: RunState, end: RunResult) -> None:
        if run.run_id not in self._shown:
            self._shown.add(run.run_id)
            show_record(self._state.shell, end)

    def ask(self, question: Question[AnswerT]) -> AnswerT:
        return cast("AnswerT", self._submit(self._answer(question, self._attended())).result())

    async def _answer(self, question: Question[Any], attended: bool) -> BaseModel:
        """Of the question's `answer_type`."""
        match question:
            case AskModels():
                return await self._models.listed()
            case AskServers():
                return ServersView(faults=["MCP servers are there only where a Jupyter server has the extension."])
        runtime = await self._open(attended)
        match question:
            case AskUsage():
                return await runtime.usage(question.days)  # of this process, where its log is in memory
            case AskMetrics():
                return await runtime.metrics(question.days)
            case AskWaitingRuns():
                runs = await runtime.list_runs(ended=0)
                waiting = (WaitingRun(run_id=run.run_id, tool_names=tuple(run.waiting_tools)) for run in runs)
                return WaitingRuns(runs=tuple(waiting))
            case AskRemoveRule():
                conversation = await runtime.conversation(question.conversation_id)
                await conversation.remove_rule(question.rule_id, by="script")
            case AskUndoRun():
                return await runtime.undo_run(question.run_id, redo=question.redo, by="script")
        return Answer()

    def _attended(self) -> bool:
        has_widgets = importlib.util.find_spec("agent_kernel_widgets") is not None
        return has_widgets and is_attended(self._state.shell)

    def _submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    async def _execute(self, run: RunState, channel: WidgetChannel | None, attended: bool) -> None:
        """Execute one run from its start to its end, on the runtime's loop. Whatever fails, the run ends."""
        try:
            runtime = await self._open(attended)
            spec = RunSpec.from_declaration(run.declaration())
            if run.model is not None and not isinstance(run.model, str):
                spec = dataclasses.replace(spec, model=self._models.register(self._own_model(run.model)))
            conversation = await runtime.create_conversation(
                conversation_id=run.conversation_id, notebook_path=notebook_path()
            )
            hosted = self._hosted[run.run_id] = HostedRun(run, conversation, channel)
            conversation.on_retry = self._retry
            events = conversation.subscribe()
            watch = self._tasks.spawn(self._watch(run, conversation, events, channel), f"watch {run.run_id}")
            if channel is not None:
                channel.open(conversation)
            link = await self._open_link()
            executor = KernelExecutor(lambda: link, self._calls, run.run_id, notebook_path(), logger)
            scripted = spec.script
            if not attended:
                recorded = await self._recorded(spec.model, spec.prompt)
                scripted = unattended_decisions(self._approves, by_hand=scripted, recorded=recorded)
            async with hosted.lock:
                handle = await conversation.start_run(spec, executor, scripted=scripted)
                if run.stop_cause is not None:
                    await self._cancel(run, run.stop_cause)
                await self._finish(hosted, handle, events, watch)
        except Exception as error:  # noqa: BLE001 -- the cell that waits must be released
            run.fail(str(error) if isinstance(error, AgentKernelError) else f"{type(error).__name__}: {error}")

    async def _finish(
        self, hosted: HostedRun, handle: RunHandle, events: Subscription, watch: "asyncio.Task[None]"
    ) -> None:
        result = await handle.wait()
        events.close()
        await watch
        if hosted.channel is not None:
            await hosted.channel.drain()
        hosted.run.finish(result)

    def _own_model(self, model: Any) -> OwnModel:
        """The same one for the same object, which has one name."""
        known = next((one for one in self._own_models if one.model is model), None)
        if known is None:
            name_of = cell_names(self._state.shell, "", "")
            known = OwnModel(model, lambda error: render(error, name_of))
            self._own_models.append(known)
        return known

    def _retry(self, spec: RunSpec, handle: RunHandle) -> None:
        """A page has retried a run whose model had failed."""
        hosted = self._hosted.get(spec.run_id)
        if hosted is not None:
            self._tasks.spawn(self._execute_again(hosted, handle), f"run {spec.run_id}")

    async def _execute_again(self, hosted: HostedRun, handle: RunHandle) -> None:
        events = hosted.conversation.subscribe()
        async with hosted.lock:
            hosted.run.reopen()
            watching = self._watch(hosted.run, hosted.conversation, events, hosted.channel)
            watch = self._tasks.spawn(watching, f"watch {hosted.run.run_id}")
            await self._finish(hosted, handle, events, watch)

    def _release(self, run_id: str) -> None:
        """Forget a run that has ended and can't be tried again. On the runtime's loop."""
        hosted = self._hosted.pop(run_id, None)
        if hosted is not None and hosted.channel is not None:
            hosted.channel.close()

    async def _open(self, attended: bool) -> Runtime:
        async with self._opening:
            if self._runtime is None:
                self._runtime = await Runtime.open(_log_path(), self._models, _settings(), attended=attended)
            return self._runtime

    async def _open_link(self) -> KernelLink:
        async with self._opening:
            if self._link is None:
                has_kernel = kernel_of(self._state.shell) is not None
                connection = self._connection = (
                    OwnConnection(self._calls, self._tasks)
                    if has_kernel
                    else PlainConnection(self._calls, self._tasks, self._state)
                )
                await connection.open()
                self._link = KernelLink(connection)
                self._link.installed.set()
            return self._link

    async def _recorded(self, model: str | None, prompt: str) -> tuple[ScriptedDecision, ...]:
        """The decisions that a recording has beside its turns, for runs without anybody to ask."""
        try:
            resolved = await in_own_thread(lambda: self._models.resolve(model))
        except AgentKernelError:
            return ()  # the run reports it
        find: Any = getattr(resolved, "scripted_decisions", None)
        return tuple(find(prompt)) if find is not None else ()

    async def _watch(
        self, run: RunState, conversation: Conversation, events: Subscription, channel: WidgetChannel | None
    ) -> None:
        async for frame in events:
            event = json.loads(frame)
            if event.get("run_id") != run.run_id:
                continue
            if event["type"] == "run":
                run.update(RunView.model_validate(event["run"]))
            elif event["type"] == "approval_request" and channel is not None and not channel.seen.is_set():
                unseen = self._deny_unseen(channel, conversation, event["approval_id"])
                self._tasks.spawn(unseen, "wait for a page")

    async def _deny_unseen(self, channel: WidgetChannel, conversation: Conversation, approval_id: str) -> None:
        if not await self._seen(channel):
            denial = Decision(approved=False, reason=NO_CLIENT)
            with contextlib.suppress(AlreadyDecided):
                await conversation.route_decision(approval_id, denial, by="policy")

    async def _give_up_unseen(self, run_id: str, channel: WidgetChannel) -> None:
        if not await self._seen(channel):
            self._views.give_up(run_id)
            self._release(run_id)

    async def _seen(self, channel: WidgetChannel) -> bool:
        """Whether a page shows the run. Waits some seconds for the first one."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CLIENT_SECONDS):
                await channel.seen.wait()
        return channel.seen.is_set()

    async def _cancel(self, run: RunState, cause: StopCause) -> None:
        hosted = self._hosted.get(run.run_id)
        if hosted is None:
            return  # it is cancelled as soon as it has started
        moved = cause == "cell_deleted" and hosted.channel is not None and hosted.channel.on_screen
        if not moved:
            with contextlib.suppress(UnknownRun):
                await hosted.conversation.cancel_run(run.run_id, stop_for(cause))

    def _close(self) -> None:
        async def close() -> None:
            await self._tasks.aclose()
            if self._connection is not None:
                self._connection.disconnect()
            if self._runtime is not None:
                await self._runtime.aclose()
            await self._models.aclose()

        closing = self._submit(close())
        try:
            closing.result(CLOSE_SECONDS)
        except TimeoutError:
            closing.cancel()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(CLOSE_SECONDS)


def _log_path() -> Path | None:
    """`None` is a log in memory: only the notebook's record remains."""
    path = os.environ.get(LOG_VARIABLE, "").strip()
    return Path(path) if path else None


def _settings() -> RuntimeSettings:
    send_images = os.environ.get(SEND_IMAGES_VARIABLE, "").strip().lower() not in ("0", "false", "no", "off")
    log = _log_path()
    return RuntimeSettings(
        client_seconds=CLIENT_SECONDS,
        hidden_paths=(str(log.absolute()),) if log is not None else (),
        send_images=send_images,
        read_limits=lambda _: read_limits(FOLDER),
        read_instructions=lambda _: read_instructions(FOLDER, None, own_instructions_folder()),
        user_rules=UserRules(user_rules_path()),
    )
