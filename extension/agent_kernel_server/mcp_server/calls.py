"""`ClientCalls`: the calls of agents outside. Each is the one call of a run of its own, and goes the way of all calls.

A call's handle is its run's id. What a client repeats, and what it was sent, is in the log, so it is the same after a
restart; only the tasks that wait are in memory.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from logging import Logger

from agent_kernel.errors import AgentKernelError, KernelGone, ToolFailed, UnknownRun
from agent_kernel.execution.cell_changes import CellChanges
from agent_kernel.execution.kernel_executor import KernelCalls
from agent_kernel.execution.link import KernelLink
from agent_kernel.execution.notebook_executor import NotebookExecutor
from agent_kernel.protocol.ids import new_run_id
from agent_kernel.protocol.pages import RunsBegan
from agent_kernel.runtime.conversation import Conversation
from agent_kernel.runtime.runs.queue import RunHandle
from agent_kernel.runtime.runtime import Runtime
from agent_kernel.runtime.settings import ClientCall, RunSpec
from agent_kernel.tools.arguments import canonical, digest
from agent_kernel.tools.builtin.declarations import BUILTIN_TOOLS
from agent_kernel_server.kernels.manager import ServedKernels
from agent_kernel_server.mcp_server.executor import ClientExecutor
from agent_kernel_server.mcp_server.notebooks import Notebooks, Place
from agent_kernel_server.notebooks.cell_files import CellFiles
from agent_kernel_server.notebooks.editor import ServedNotebook
from agent_kernel_server.notebooks.pages import OpenPages
from agent_kernel_server.notebooks.run_cell import Ran

MOST_OPEN = 50
"""How many calls of one client in one notebook may be open at once."""
TOOLS = {tool.name: tool for tool in BUILTIN_TOOLS if tool.name not in ("run_shell", "ask_user")}
"""The tools that agents outside may call."""
LOOK_SECONDS = 0.5
"""How often the log is read for a call that another server on the same log carries out."""


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
    def __init__(
        self,
        runtime: Callable[[], Awaitable[Runtime]],
        kernels: ServedKernels,
        notebooks: Notebooks,
        pages: OpenPages,
        files: CellFiles,
        log: Logger,
    ) -> None:
        self.runtime = runtime
        self.notebooks = notebooks
        self._kernels = kernels
        self._pages = pages
        self._files = files
        self._log = log
        self._asking = asyncio.Lock()
        self._open: dict[str, tuple[str, RunHandle]] = {}
        """The homes and runs of the calls that this server carries out, by handle."""
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def open_calls(self) -> int:
        return len(self._open)

    async def ask(self, caller: Caller, place: Place, tool_name: str, arguments: dict[str, object]) -> Asked:
        """Start a call, or find the same one of before. Raises `ToolFailed`, and other `AgentKernelError`s."""
        runtime = await self.runtime()
        text = canonical(arguments)
        async with self._asking:
            conversation = await runtime.client_conversation(
                caller.client, caller.user, notebook_path=place.notebook_path, kernel_id=place.kernel_id
            )
            home = conversation.row.client_home or ""
            before = await runtime.undelivered_call(home, tool_name, digest(text))
            if before is not None:
                return Asked(before, repeated=True)
            if sum(one == home for one, _ in self._open.values()) >= MOST_OPEN:
                raise ToolFailed(f"{MOST_OPEN} calls of yours are open in {place.name}. Wait for some of them first.")
            spec = RunSpec(
                run_id=new_run_id(),
                prompt=f"{caller.client} asks (by MCP; nobody has verified this name)",
                tools=(TOOLS[tool_name],),
                notebook_path=place.notebook_path,
                client_call=ClientCall(caller.client, home, tool_name, text, digest(text)),
            )
            handle = await conversation.start_run(spec, self.executor(conversation, spec), asked_by=caller.user)
            self.follow(spec, handle)
        self._pages.tell(RunsBegan())
        return Asked(spec.run_id, repeated=False)

    def executor(self, conversation: Conversation, spec: RunSpec) -> ClientExecutor:
        """For a call, also one that an earlier server has left open."""

        async def place() -> Place:
            return await self._place_of(conversation.conversation_id)

        async def find() -> NotebookExecutor:
            there = await place()
            return await self._kernels.executor_of(
                await self.notebooks.kernel_for(there), spec.run_id, there.notebook_path
            )

        return ClientExecutor(find, self._reader(place, spec))

    async def _place_of(self, conversation_id: str) -> Place:
        row = await (await self.runtime()).row_of(conversation_id)
        return Place(row.notebook_path, row.kernel_id)

    def _reader(self, place: Callable[[], Awaitable[Place]], spec: RunSpec) -> NotebookExecutor:
        """Reads a notebook in its page or its file."""

        def no_link() -> KernelLink:
            raise KernelGone("There is no kernel.")

        async def run_nothing(_: str, __: str) -> Ran:
            raise KernelGone("There is no kernel.")

        async def find_path() -> str | None:
            return (await place()).notebook_path

        async def interrupt() -> None: ...

        notebook = ServedNotebook(self._pages, self._files, "", find_path, run_nothing, interrupt)
        kernel = (no_link, KernelCalls(self._log), spec.run_id, spec.notebook_path, self._log)
        return NotebookExecutor(*kernel, notebook=notebook, changes=CellChanges(), cell_id=None)

    def follow(self, spec: RunSpec, handle: RunHandle) -> None:
        """Know an open call until it ends."""
        assert spec.client_call is not None
        self._open[handle.run_id] = (spec.client_call.home, handle)

        async def forget() -> None:
            try:
                await handle.wait()
            finally:
                del self._open[handle.run_id]

        task = asyncio.create_task(forget(), name=f"call of a client {handle.run_id}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

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

    async def delivered(self, handles: set[str]) -> None:
        """These results have been sent: the same call is another one from now on."""
        try:
            for handle in handles:
                await (await self.runtime()).note_delivery(handle)
        except AgentKernelError as error:  # a repeat gets the same result again
            self._log.warning("It could not be noted that results were sent: %s", error)

    async def aclose(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
