"""`ClientCalls`: the calls of agents outside. Each is the one call of a run of its own, and goes the way of all calls.

A call's handle is its run's id. What a client repeats, and what it was sent, is in the log, so it is the same after a
restart; only the tasks that wait are in memory.
"""

import asyncio
import contextlib
import importlib
from collections.abc import Awaitable, Callable, Coroutine, MutableMapping, Sequence
from dataclasses import dataclass, replace
from logging import Logger
from typing import Any

from agent_kernel.errors import (
    AgentKernelError,
    ConfigurationError,
    KernelGone,
    LogUnavailable,
    ToolFailed,
    UnknownRun,
)
from agent_kernel.execution.cell_changes import CellChanges
from agent_kernel.execution.kernel_executor import KernelCalls
from agent_kernel.execution.link import KernelLink
from agent_kernel.execution.notebook_executor import NotebookExecutor
from agent_kernel.models.redaction import Secrets
from agent_kernel.protocol.calls import ApprovedCall, Outcome, ToolVerdict
from agent_kernel.protocol.calls import Place as CallPlace
from agent_kernel.protocol.file_cards import CellCard, FileCard
from agent_kernel.protocol.ids import new_run_id
from agent_kernel.protocol.kernel import EnvironmentDescribed, Mention
from agent_kernel.protocol.pages import RunsBegan
from agent_kernel.runtime.conversation import Conversation
from agent_kernel.runtime.runs.queue import RunHandle
from agent_kernel.runtime.runtime import Runtime
from agent_kernel.runtime.settings import ClientCall, RunSpec
from agent_kernel.runtime.tasks import TaskOwner
from agent_kernel.tools.arguments import canonical, digest, parse
from agent_kernel.tools.builtin.declarations import BUILTIN_TOOLS
from agent_kernel.tools.executor import OutputSink
from agent_kernel_server.kernels.manager import ServedKernels
from agent_kernel_server.mcp_server.notebooks import Notebooks, Place
from agent_kernel_server.mcp_tools.configuration import NO_PACKAGE
from agent_kernel_server.notebooks.cell_files import CellFiles
from agent_kernel_server.notebooks.editor import ServedNotebook
from agent_kernel_server.notebooks.open_pages import OpenPages
from agent_kernel_server.notebooks.run_cell import Ran

MOST_OPEN = 50
"""How many calls of one client in one notebook may be open at once."""
_UNASKED = frozenset({"read_notebook", "inspect_variables"})
TOOLS = {
    tool.name: tool if tool.name in _UNASKED else replace(tool, approval="ask")
    for tool in BUILTIN_TOOLS
    if tool.name not in ("run_shell", "ask_user")
}
"""The tools that agents outside may call. Files are read for them only where a person or a rule says so."""
DELIVERY_SECONDS = 5.0
"""A result counts as delivered so long after it was sent, or when the same call is asked for again: if the server dies
before, nobody knows whether the client has read it."""
LOOK_SECONDS = 0.5
"""How often the log is read for a call that another server on the same log carries out."""
STOPS = "The server is stopping. Ask again when it runs."
NO_WAY_BACK = "The kernel that ran this call is gone, and what was there before went with it. Nothing was undone."

Message = MutableMapping[str, Any]
App = Callable[
    [dict[str, Any], Callable[[], Awaitable[Message]], Callable[[Message], Awaitable[None]]], Coroutine[Any, Any, None]
]


@dataclass(frozen=True, slots=True)
class Caller:
    """An agent outside, and the user whose token it has."""

    client: str
    """The name that it gave, which nobody has verified."""
    user: str | None


@dataclass(frozen=True, slots=True)
class Asked:
    """A call that was asked for."""

    handle: str
    repeated: bool
    """Whether this is an earlier call, whose result the client was never sent."""


class ClientCalls:
    """`app` is the `mcp` package's server that asks for them. The package is heavy, and imported with the first
    request."""

    def __init__(
        self,
        runtime: Callable[[], Awaitable[Runtime]],
        kernels: ServedKernels,
        notebooks: Notebooks,
        pages: OpenPages,
        files: CellFiles,
        secrets: Callable[[], Secrets],
        tasks: TaskOwner,
        log: Logger,
    ) -> None:
        self.runtime = runtime
        self.kernels = kernels
        self.notebooks = notebooks
        self.pages = pages
        self.files = files
        self.log = log
        self._secrets = secrets
        self._tasks = tasks
        self._asking = asyncio.Lock()
        self._open: dict[str, tuple[str, RunHandle]] = {}
        """The homes and runs of the calls that this server carries out, by handle."""
        self._sent: set[str] = set()
        """The handles of results that were sent, and do not count as delivered yet."""
        self._opening = asyncio.Lock()
        self._app: App | None = None
        self.closed = False

    async def app(self) -> App:
        """Raises `ConfigurationError`, and `LogUnavailable` once the server stops."""
        async with self._opening:
            if self._app is None and not self.closed:
                try:
                    server = await asyncio.to_thread(importlib.import_module, "agent_kernel_server.mcp_server.offered")
                except ImportError:
                    raise ConfigurationError(NO_PACKAGE) from None
                ready = asyncio.Event()
                sessions = server.make_sessions(self, self._secrets())
                self._tasks.spawn(self._run(sessions, ready), "sessions of MCP clients")
                await ready.wait()
        if self._app is None:
            raise LogUnavailable(STOPS)
        return self._app

    async def _run(self, sessions: Any, ready: asyncio.Event) -> None:
        try:
            async with sessions.run():
                self._app = sessions.handle_request
                ready.set()
                try:
                    await asyncio.Event().wait()
                finally:  # sessions that are about to end carry out no requests
                    self._app, self.closed = None, True
        finally:
            ready.set()

    async def ask(self, caller: Caller, place: Place, tool_name: str, arguments: dict[str, object]) -> Asked:
        """Start a call, or find the same one of before. Raises `ToolFailed`, and other `AgentKernelError`s."""
        runtime = await self.runtime()
        text = canonical(arguments)
        async with self._asking:
            conversation = await runtime.client_conversation(
                caller.client, caller.user, notebook_path=place.notebook_path, kernel_id=place.kernel_id
            )
            home = conversation.row.client_home or ""
            while (before := await runtime.undelivered_call(home, tool_name, digest(text))) is not None:
                if before not in self._sent:
                    return Asked(before, repeated=True)
                await self._note_delivery(before)
            if sum(one == home for one, _ in self._open.values()) >= MOST_OPEN:
                raise ToolFailed(f"{MOST_OPEN} calls of yours are open in {place.name}. Wait for some of them first.")
            spec = RunSpec(
                run_id=new_run_id(),
                prompt=f"{caller.client} asks (unverified name, by MCP)",
                tools=(TOOLS[tool_name],),
                notebook_path=place.notebook_path,
                client_call=ClientCall(caller.client, home, tool_name, text, digest(text)),
            )
            handle = await conversation.start_run(spec, ClientExecutor(self, conversation, spec), asked_by=caller.user)
            self.follow(spec, handle)
        self.pages.tell(RunsBegan())
        return Asked(spec.run_id, repeated=False)

    def follow(self, spec: RunSpec, handle: RunHandle) -> None:
        """Know an open call until it ends."""
        assert spec.client_call is not None
        self._open[handle.run_id] = (spec.client_call.home, handle)

        async def forget() -> None:
            try:
                await handle.wait()
            finally:
                del self._open[handle.run_id]

        self._tasks.spawn(forget(), f"call of a client {handle.run_id}")

    async def wait(self, handle: str, seconds: float) -> bool:
        """Whether a call has ended within this time."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                if handle in self._open:
                    await self._open[handle][1].wait()
                runtime = await self.runtime()
                while (await runtime.run(handle)).ended_at is None:  # noqa: ASYNC110 -- another process ends it
                    await asyncio.sleep(LOOK_SECONDS)
                return True
        return False

    async def find(self, caller: Caller, handle: str) -> Place:
        """Where a call of this caller is. Raises `ToolFailed` for another's, or one that there is not."""
        runtime = await self.runtime()
        try:
            row = await runtime.row_of((await runtime.run(handle)).conversation_id)
        except UnknownRun:
            row = None
        if row is None or row.client is None or (row.client, row.client_user) != (caller.client, caller.user):
            raise ToolFailed(f"You have no call with the handle {handle[:80]!r}.")
        return Place(row.notebook_path, row.kernel_id)

    def sent(self, handles: set[str]) -> None:
        """These results have been sent: in this server the same call is another one from now on."""

        async def note(handle: str) -> None:
            await asyncio.sleep(DELIVERY_SECONDS)
            try:
                await self._note_delivery(handle)
            except AgentKernelError as error:  # a repeat gets the same result again
                self.log.warning("It could not be noted that a result was sent: %s", error)

        for handle in handles - self._sent:
            self._sent.add(handle)
            self._tasks.spawn(note(handle), f"delivery of {handle}")

    async def _note_delivery(self, handle: str) -> None:
        await (await self.runtime()).note_delivery(handle)
        self._sent.discard(handle)


class ClientExecutor:
    """Implements `agent_kernel.tools.executor.ToolExecutor` for the run of one call, also one that an earlier server
    has left open. A call that waits outlives its kernel, and the server: a kernel is found or started when it is
    needed. The notebook itself is read without one."""

    def __init__(self, calls: ClientCalls, conversation: Conversation, spec: RunSpec) -> None:
        self._calls = calls
        self._conversation_id = conversation.conversation_id
        self._spec = spec
        self._last: NotebookExecutor | None = None
        """The one in which the call has begun."""

    async def _place(self) -> Place:
        row = await (await self._calls.runtime()).row_of(self._conversation_id)
        return Place(row.notebook_path, row.kernel_id)

    async def _find(self) -> NotebookExecutor:
        place = await self._place()
        kernel_id = await self._calls.notebooks.kernel_for(place)
        return await self._calls.kernels.executor_of(kernel_id, self._spec.run_id, place.notebook_path)

    def _reader(self) -> NotebookExecutor:
        """Reads the notebook in its page or its file."""

        def no_kernel(*_: object) -> KernelLink:
            raise KernelGone("There is no kernel.")

        async def run_nothing(*_: object) -> Ran:
            raise KernelGone("There is no kernel.")

        async def find_path() -> str | None:
            return (await self._place()).notebook_path

        async def interrupt() -> None: ...

        calls, spec = self._calls, self._spec
        notebook = ServedNotebook(calls.pages, calls.files, "", find_path, run_nothing, interrupt)
        kernel = (no_kernel, KernelCalls(calls.log), spec.run_id, spec.notebook_path, calls.log)
        return NotebookExecutor(*kernel, notebook=notebook, changes=CellChanges(), cell_id=None)

    async def execute(self, call: ApprovedCall, emit: OutputSink) -> Outcome:
        if _reads_this(call.tool_name, call.arguments_json):
            return await self._reader().execute(call, emit)
        self._last = await self._find()
        return await self._last.execute(call, emit)

    async def interrupt(self, approval_id: str) -> bool:
        return self._last is not None and await self._last.interrupt(approval_id)

    async def tool_verdict(self, tool_name: str, arguments_json: str) -> ToolVerdict:
        if _reads_this(tool_name, arguments_json):
            return ToolVerdict("allow")
        return await (await self._find()).tool_verdict(tool_name, arguments_json)

    async def waiting_behind(self, approval_id: str) -> int | None:
        return await self._last.waiting_behind(approval_id) if self._last is not None else None

    async def state_version(self) -> str | None:
        return None  # stored outcomes are those of a model's conversation

    async def undo(self, approval_id: str, *, redo: bool = False) -> None:
        """Raises `ToolFailed`, also where the kernel is gone: a new one would know nothing of the call."""
        if await self._calls.notebooks.kernel_of(await self._place()) is None:
            raise ToolFailed(NO_WAY_BACK)
        await (self._last or await self._find()).undo(approval_id, redo=redo)

    async def preview(self, tool_name: str, arguments_json: str, place: CallPlace | None) -> FileCard | None:
        return await (await self._find()).preview(tool_name, arguments_json, place)

    async def cell_card(self, tool_name: str, arguments_json: str, seen: str | None) -> CellCard:
        return await (await self._find()).cell_card(tool_name, arguments_json, seen)

    async def read_picture(self, address: str) -> bytes:
        return await (await self._find()).read_picture(address)

    async def read_mentions(self, names: Sequence[str]) -> tuple[Mention, ...]:
        return await (await self._find()).read_mentions(names)

    async def describe_environment(self) -> EnvironmentDescribed:
        return EnvironmentDescribed()


def _reads_this(tool_name: str, arguments_json: str) -> bool:
    """Whether a call reads the notebook that it names, for which no kernel is needed."""
    return tool_name == "read_notebook" and parse(arguments_json).get("path") is None
