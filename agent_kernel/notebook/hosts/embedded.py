"""The host of a kernel without such a server: the runtime in a background thread of this process."""

import asyncio
import atexit
import contextlib
import dataclasses
import importlib.util
import json
import os
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any

from agent_kernel.approvals.folder_file import read_limits
from agent_kernel.approvals.scripted import ScriptedDecision
from agent_kernel.approvals.user_rules import UserRules
from agent_kernel.errors import AgentKernelError, AlreadyDecided, UnknownRun
from agent_kernel.models.resolver import ModelResolver
from agent_kernel.notebook.hosts.live_cards import Cards
from agent_kernel.notebook.hosts.live_view import Hearing, LiveView, show_record
from agent_kernel.notebook.hosts.local_executor import LocalExecutor
from agent_kernel.notebook.hosts.widget_channel import WidgetChannel
from agent_kernel.notebook.kernel.environment import (
    hears_while_blocked,
    is_attended,
    kernel_of,
    notebook_path,
    user_rules_path,
)
from agent_kernel.notebook.kernel.self_client import SelfClient
from agent_kernel.notebook.kernel.state import KernelState
from agent_kernel.notebook.run_state import RunState
from agent_kernel.notebook.tools import FOLDER
from agent_kernel.protocol.commands import Decision
from agent_kernel.protocol.kernel import RunEnd
from agent_kernel.protocol.kernel_events import WaitingRun
from agent_kernel.protocol.views import ModelsView, RunView, UsageReport
from agent_kernel.protocol.vocabulary import StopCause
from agent_kernel.runtime.clients.feed import Subscription
from agent_kernel.runtime.conversation import Conversation
from agent_kernel.runtime.runs.queue import RunHandle
from agent_kernel.runtime.runs.stop import stop_for
from agent_kernel.runtime.runtime import Runtime
from agent_kernel.runtime.settings import RunSpec, RuntimeSettings
from agent_kernel.runtime.tasks import TaskOwner

CLIENT_SECONDS = 10.0
NO_CLIENT = (
    f"Nobody could be asked: no page showed this run's cards within {CLIENT_SECONDS:g} s. The notebook needs the "
    "Jupyter widgets, or a server with the extension agent_kernel_server."
)
CLOSE_SECONDS = 5.0
SEND_IMAGES_VARIABLE = "AGENT_KERNEL_SEND_IMAGES"
"""Set to `no`, it keeps plots and prompts' pictures from models, as a server's `send_images` does."""


@dataclasses.dataclass(frozen=True, slots=True)
class Carried:
    """A run that the runtime of this process carries out, or could try again."""

    run: RunState
    conversation: Conversation
    line: WidgetChannel | None
    turn: asyncio.Lock = dataclasses.field(default_factory=asyncio.Lock)
    """Held until the run has heard of its end: a page may try it again before that."""


class EmbeddedHost:
    """One per kernel process. The runtime and its thread start with the first run and end with the process."""

    blocks = True

    def __init__(self, state: KernelState) -> None:
        self._state = state
        self._cards = Cards()
        self._views = self._cards.views
        self._carried: dict[str, Carried] = {}
        self._shown: set[str] = set()
        self._loop = asyncio.new_event_loop()
        self._runtime: Runtime | None = None
        self._opening = asyncio.Lock()
        self._models = ModelResolver.from_environment(os.environ)
        kernel = kernel_of(state.shell)
        self._own_shell = SelfClient(kernel) if kernel is not None else None
        self._tasks = TaskOwner()
        self._thread = threading.Thread(target=self._loop.run_forever, name="agent-kernel-runtime", daemon=True)
        self._thread.start()
        state.polling.watch(self._say_hearing)
        atexit.register(self._close)

    def begin(self, run: RunState) -> None:
        for run_id in self._cards.asked_for_more(run.conversation_id):
            self._loop.call_soon_threadsafe(self._let_go, run_id)
        attended = self._attended()
        line: WidgetChannel | None = None
        if attended:
            view = self._views[run.run_id] = LiveView(self._state.shell, run, "kernel", self._hearing())
            run.shown_by(view.widget.model_id, prompt_in_cell=view.prompt_in_cell)
            line = WidgetChannel(view.widget, self._loop, self._tasks)
            line.attach()
            view.show()
        self._submit(self._carry(run, line, attended))

    def _hearing(self) -> Hearing:
        return "usually" if self._state.polling.hears_pages else "between-cells"

    def _say_hearing(self) -> None:
        for view in list(self._views.values()):
            view.say_hearing(self._hearing())

    def cancel(self, run: RunState, cause: StopCause) -> None:
        self._submit(self._cancel(run, cause))

    def list_models(self) -> Future[ModelsView]:
        return asyncio.run_coroutine_threadsafe(self._models.listed(), self._loop)

    def show_here(self, run: RunState) -> bool:
        return self._cards.show_here(run.run_id)

    def waiting(self) -> list[WaitingRun]:
        async def read() -> list[WaitingRun]:
            if self._runtime is None:
                return []
            return [
                WaitingRun(run_id=run.run_id, tool_names=tuple(run.waiting_tools))
                for run in await self._runtime.list_runs(ended=0)
            ]

        return asyncio.run_coroutine_threadsafe(read(), self._loop).result()

    def ended(self, end: RunEnd) -> None:
        run_id = end.run.run_id
        if run_id in self._views:
            self._shown.add(run_id)
        carried = self._carried.get(run_id)
        line = carried.line if carried is not None else None
        if self._cards.ended(end, kept=line is not None):
            self._loop.call_soon_threadsafe(self._let_go, run_id)
        elif line is not None and not line.seen.is_set():
            self._submit(self._give_up_unseen(run_id, line))

    def goes_on(self, run: RunState) -> None:
        self._cards.goes_on(run.run_id)

    def settled(self, run: RunState, end: RunEnd) -> None:
        if run.run_id not in self._shown:
            self._shown.add(run.run_id)
            show_record(self._state.shell, end)

    def usage(self, days: int) -> UsageReport:
        """Of this process: its log is in memory."""
        attended = self._attended()

        async def read() -> UsageReport:
            return await (await self._open(attended)).usage(days)

        return asyncio.run_coroutine_threadsafe(read(), self._loop).result()

    def remove_rule(self, conversation_id: str, rule_id: str) -> None:
        attended = self._attended()

        async def remove() -> None:
            conversation = await (await self._open(attended)).conversation(conversation_id)
            await conversation.remove_rule(rule_id, by="script")

        asyncio.run_coroutine_threadsafe(remove(), self._loop).result()

    def undo(self, approval_id: str) -> None:
        attended = self._attended()

        async def undo() -> None:
            await (await self._open(attended)).undo(approval_id, by="script")

        asyncio.run_coroutine_threadsafe(undo(), self._loop).result()

    def _attended(self) -> bool:
        return is_attended(self._state.shell) and _have_widgets()

    def _submit(self, work: Coroutine[Any, Any, None]) -> Future[None]:
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    async def _carry(self, run: RunState, line: WidgetChannel | None, attended: bool) -> None:
        """One run from its start to its end, on the runtime's loop. Whatever fails, the run ends."""
        try:
            runtime = await self._open(attended)
            spec = run.spec
            if run.model is not None and not isinstance(run.model, str):
                spec = dataclasses.replace(spec, model=self._models.register(run.model))
            conversation = await runtime.create_conversation(
                conversation_id=run.conversation_id, notebook_path=notebook_path()
            )
            carried = self._carried[run.run_id] = Carried(run, conversation, line)
            conversation.on_retry = self._go_on
            events = conversation.subscribe()
            watch = self._tasks.spawn(self._watch(run, conversation, events, line), f"watch {run.run_id}")
            if line is not None:
                line.open(conversation)
            executor = LocalExecutor(self._state, run.run_id, self._own_shell)
            scripted = run.scripted or await self._recorded(spec.model, spec.prompt)
            async with carried.turn:
                handle = await conversation.start_run(spec, executor, scripted=scripted)
                if run.stop_cause is not None:
                    await self._cancel(run, run.stop_cause)
                await self._see_to_end(carried, handle, events, watch)
        except Exception as error:  # noqa: BLE001 -- the cell that waits must hear of it
            run.fail(str(error) if isinstance(error, AgentKernelError) else f"{type(error).__name__}: {error}")

    async def _see_to_end(
        self, carried: Carried, handle: RunHandle, events: Subscription, watch: "asyncio.Task[None]"
    ) -> None:
        result = await handle.wait()
        events.close()
        await watch
        if carried.line is not None:
            await carried.line.drain()
        end = RunEnd(run=result.run, text=result.text, messages=result.messages, tool_calls=result.tool_calls)
        carried.run.finish(end)

    def _go_on(self, spec: RunSpec, handle: RunHandle) -> None:
        """A page has tried a run again whose model had failed."""
        carried = self._carried.get(spec.run_id)
        if carried is not None:
            self._tasks.spawn(self._carry_on(carried, handle), f"run {spec.run_id}")

    async def _carry_on(self, carried: Carried, handle: RunHandle) -> None:
        events = carried.conversation.subscribe()
        async with carried.turn:
            carried.run.go_on()
            watching = self._watch(carried.run, carried.conversation, events, carried.line)
            watch = self._tasks.spawn(watching, f"watch {carried.run.run_id}")
            await self._see_to_end(carried, handle, events, watch)

    def _let_go(self, run_id: str) -> None:
        """A run is over, or can't be tried again. On the runtime's loop."""
        carried = self._carried.pop(run_id, None)
        if carried is not None and carried.line is not None:
            carried.line.close()

    async def _open(self, attended: bool) -> Runtime:
        async with self._opening:
            if self._runtime is None:
                # In memory: the notebook's record is what stays.
                self._runtime = await Runtime.open(None, self._models, _settings(), attended=attended)
            return self._runtime

    async def _recorded(self, model: str | None, prompt: str) -> tuple[ScriptedDecision, ...]:
        """The answers that a cassette holds beside its turns, for runs that nobody watches."""
        try:
            resolved = await asyncio.to_thread(self._models.resolve, model)
        except AgentKernelError:
            return ()  # the run says what is wrong
        find: Any = getattr(resolved, "scripted_decisions", None)
        return tuple(find(prompt)) if find is not None else ()

    async def _watch(
        self, run: RunState, conversation: Conversation, events: Subscription, line: WidgetChannel | None
    ) -> None:
        async for frame in events:
            event = json.loads(frame)
            if event.get("run_id") != run.run_id:
                continue
            if event["type"] == "run":
                run.update(RunView.model_validate(event["run"]))
            if line is not None and not line.seen.is_set() and (work := self._without_page(event, conversation, line)):
                self._tasks.spawn(work, "wait for a page")

    def _without_page(
        self, event: dict[str, Any], conversation: Conversation, line: WidgetChannel
    ) -> Coroutine[Any, Any, None] | None:
        """What becomes of a question that no page shows."""
        match event["type"]:
            case "run" if event["run"]["paused"]:
                return self._end_unseen(conversation, line, event["run_id"])
            case "approval_request":
                return self._deny_unseen(conversation, line, event["approval_id"])
            case "tool_complete" if event["state"] == "unknown":
                return self._continue_unseen(conversation, line, event["tool_call_id"])
        return None

    async def _deny_unseen(self, conversation: Conversation, line: WidgetChannel, approval_id: str) -> None:
        if not await self._seen(line):
            with contextlib.suppress(AlreadyDecided):
                await conversation.decide(approval_id, Decision(approved=False, reason=NO_CLIENT))

    async def _continue_unseen(self, conversation: Conversation, line: WidgetChannel, tool_call_id: str) -> None:
        if not await self._seen(line):
            with contextlib.suppress(AlreadyDecided):
                await conversation.answer_unknown(tool_call_id, "continue")

    async def _end_unseen(self, conversation: Conversation, line: WidgetChannel, run_id: str) -> None:
        if not await self._seen(line):
            await conversation.end_paused(run_id)

    async def _give_up_unseen(self, run_id: str, line: WidgetChannel) -> None:
        if not await self._seen(line):
            self._cards.give_up(run_id)
            self._let_go(run_id)

    async def _seen(self, line: WidgetChannel) -> bool:
        """Whether a page shows the run; one that has not by now is given a while."""
        await self._between_cells()
        try:
            async with asyncio.timeout(CLIENT_SECONDS):
                await line.seen.wait()
        except TimeoutError:
            await self._between_cells()
        return line.seen.is_set()

    async def _between_cells(self) -> None:
        """Where pages are heard between cells only, wait until what they have said by now is heard."""
        if self._own_shell is not None and not hears_while_blocked(self._state.shell):
            await self._own_shell.reached()

    async def _cancel(self, run: RunState, cause: StopCause) -> None:
        carried = self._carried.get(run.run_id)
        if carried is None:
            return  # it is stopped as soon as it has begun
        moved = cause == "cell_deleted" and carried.line is not None and carried.line.on_screen
        if not moved:
            with contextlib.suppress(UnknownRun):
                await carried.conversation.cancel_run(run.run_id, stop_for(cause))

    def _close(self) -> None:
        async def close() -> None:
            await self._tasks.aclose()
            if self._own_shell is not None:
                self._own_shell.close()
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


def _settings() -> RuntimeSettings:
    send_images = os.environ.get(SEND_IMAGES_VARIABLE, "").strip().lower() not in ("0", "false", "no", "off")
    return RuntimeSettings(
        client_seconds=None,
        send_images=send_images,
        read_limits=lambda _: read_limits(FOLDER),
        user_rules=UserRules(user_rules_path()),
    )


def _have_widgets() -> bool:
    return importlib.util.find_spec("agent_kernel_widgets") is not None
