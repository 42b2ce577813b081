"""`Service`: owns the runtime, the served kernels, the open channels, the records and the background tasks."""

import asyncio
import re
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from dataclasses import replace
from logging import Logger
from pathlib import Path
from typing import Any, Protocol
from weakref import WeakValueDictionary

from jupyter_server.serverapp import ServerApp

from agent_kernel.errors import AgentKernelError, ConfigurationError, KernelGone, LogUnavailable, UnknownApproval
from agent_kernel.log.opening import LOCAL
from agent_kernel.models.redaction import Secrets
from agent_kernel.models.resolver import ModelResolver
from agent_kernel.models.resolver import warm_up as import_libraries
from agent_kernel.own_thread import in_own_thread
from agent_kernel.protocol.lists import ChangeView, ListedCall, ListedRun
from agent_kernel.protocol.vocabulary import PROTOCOL_VERSION
from agent_kernel.runtime.conversation import Conversation
from agent_kernel.runtime.runs.undo import change_view
from agent_kernel.runtime.runtime import Recovered, Runtime
from agent_kernel.runtime.settings import RunSpec, RuntimeSettings
from agent_kernel.runtime.tasks import TaskOwner
from agent_kernel.tools.executor import ToolExecutor
from agent_kernel.version import __version__
from agent_kernel_server import prometheus
from agent_kernel_server.event_log import emitter
from agent_kernel_server.kernels.manager import KERNEL_ACTIONS, ServedKernels
from agent_kernel_server.kernels.shared import Shared
from agent_kernel_server.mcp_server.notebooks import Notebooks
from agent_kernel_server.mcp_server.outside_calls import ClientCalls, ClientExecutor
from agent_kernel_server.mcp_tools.servers import McpServers
from agent_kernel_server.notebooks.cell_files import CellFiles
from agent_kernel_server.notebooks.documents import Documents
from agent_kernel_server.notebooks.open_pages import OpenPages
from agent_kernel_server.notebooks.records import RecordKeeper

CONTENTS_ACTIONS = "https://events.jupyter.org/jupyter_server/contents_service/v1"
PROMPT = re.compile(rb"agent_kernel|%agent")
"""What a notebook has that loads the extension or asks an agent."""
REMEMBERED = 1_000
"""Chats of AI SDK pages whose messages are remembered until the log has them, which is when their run begins."""
MOST_LOOKED_AT = 5_000_000
"""Of a notebook, the bytes in which a prompt is looked for."""
PAGE_SECONDS = 90.0
"""How long a page that was left open over a restart may take to connect again: browsers wake a tab in the background
once a minute."""


class Socket(Protocol):
    def close(self, code: int | None = None, reason: str | None = None) -> None: ...


class Channel(Socket, Protocol):
    """An open connection to a client."""

    conversation: Conversation

    def shows(self, run_id: str) -> bool: ...


class Stream(Protocol):
    """An open response with server-sent events."""

    def close(self) -> None: ...


class Chats:
    """Starts each message of an AI SDK page once, however often it is sent. The log knows the messages of runs that
    have begun; this knows those that were just sent."""

    def __init__(self) -> None:
        self._runs: OrderedDict[str, dict[str, str]] = OrderedDict()
        """By chat, the runs of its messages."""
        self._starting: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def start_once(self, chat_id: str, message_id: str, start: Callable[[], Awaitable[str]]) -> str:
        """The id of the message's run, which is started if it was not before."""
        async with self._starting.setdefault(chat_id, asyncio.Lock()):
            known = self._runs.setdefault(chat_id, {})
            if message_id not in known:
                known[message_id] = await start()
            while len(self._runs) > REMEMBERED:
                self._runs.popitem(last=False)
            return known[message_id]

    def forget(self, chat_id: str) -> None:
        """The chat was deleted; another one may get its id."""
        self._runs.pop(chat_id, None)

    def newest(self, chat_id: str) -> tuple[str, str] | None:
        """The newest message that was started in a chat, and its run."""
        started = list(self._runs.get(chat_id, {}).items())
        return started[-1] if started else None


class Service:
    """One per server."""

    def __init__(
        self,
        app: Any,
        server: ServerApp,
        log_path: Path,
        models: ModelResolver,
        settings: RuntimeSettings,
        mcp_servers: McpServers,
    ) -> None:
        """`app`: the `AgentKernelServer`."""
        logger, kernels, sessions = app.log, server.kernel_manager, server.session_manager

        def contents() -> Any:
            """The manager in force: jupytext puts another in its place when it is loaded, which is after this
            extension."""
            return server.contents_manager

        self._log_path = log_path
        self.models = models
        self._settings = settings
        self.mcp_servers = mcp_servers
        self._logger: Logger = logger
        self._opening = asyncio.Lock()
        self._runtime: Runtime | None = None
        self._failure: ConfigurationError | None = None
        self._is_warm = False
        self._root = str(getattr(contents(), "root_dir", ""))
        self._event_logger: Any = server.event_logger
        self._emit_audit = emitter(server.event_logger)
        self.tasks = TaskOwner()
        self.channels: set[Channel] = set()
        self.streams: set[Stream] = set()
        self.chats = Chats()
        self.records = RecordKeeper(kernels, sessions, contents, logger)
        self.pages = OpenPages()
        self.page_sockets: set[Socket] = set()
        self.documents = Documents(self.pages, self.records)
        files = CellFiles(contents)
        places = (self.records, self.pages, self.documents, files)
        shared = Shared(self.runtime, models.listed, mcp_servers.view, self.is_shown, *places, logger)
        self.kernels = ServedKernels(shared, kernels, app.gateway_seconds, app.kernel_waiting_seconds)
        outside = Notebooks(kernels, sessions, contents, self.records.paths)
        self.client_calls = ClientCalls(
            self.runtime,
            self.kernels,
            outside,
            self.pages,
            files,
            lambda: Secrets(models.secrets()),
            self.tasks,
            logger,
        )
        self._listeners: list[tuple[str, Callable[..., Coroutine[Any, Any, None]]]] = [
            (KERNEL_ACTIONS, self.kernels.on_kernel_action),
            (CONTENTS_ACTIONS, self._on_contents_action),
        ]

    async def runtime(self) -> Runtime:
        """The runtime; the first call opens its log, and so does each one after that has failed. Raises
        `ConfigurationError`."""
        async with self._opening:
            if self._runtime is None:
                runtime = await self._open_runtime()
                try:
                    runtime.listen_to_audit(self._emit_audit)
                    prometheus.watch(runtime)
                    await self._resume(await runtime.recover(self._executor_for))
                except BaseException:
                    await runtime.aclose()  # two runtimes on one log would both continue the same runs
                    raise
                self._runtime = runtime
            return self._runtime

    async def _open_runtime(self) -> Runtime:
        try:
            runtime = await Runtime.open(self._log_path, self.models, self._settings)
        except ConfigurationError as error:
            self._failure = error
            raise
        self._failure = None
        if runtime.has_log_alone:
            self._logger.warning(
                "This server holds the log at %s alone, because its file system has no memory that processes share "
                "(a network home, some FUSE mounts). Another server can't use it meanwhile: there, %s.",
                self._log_path,
                LOCAL,
            )
        return runtime

    def start(self) -> None:
        """Serve the kernels. The log is opened in the background, and the runs go on that an earlier server left
        open."""
        for schema_id, listener in self._listeners:
            self._event_logger.add_listener(schema_id=schema_id, listener=listener)
        self.records.start()
        self.kernels.serve_running()
        self.tasks.spawn(self._recover(), "recovery")

    def _warm_up(self, notebook: Path) -> None:
        """Called in a thread: import what a first run needs, which takes a second, once a notebook with a prompt is
        opened. Only files are looked at."""
        with suppress(OSError, ValueError):  # also of a name that no file can have
            with notebook.open("rb") as file:
                has_prompt = PROMPT.search(file.read(MOST_LOOKED_AT))
            if has_prompt:
                self._is_warm = True
                import_libraries()

    async def _recover(self) -> None:
        try:
            await self.runtime()
        except ConfigurationError as error:  # each request gets the same error
            self._logger.error("Agent Kernel can't work yet: %s", error)

    async def _executor_for(self, conversation: Conversation, spec: RunSpec) -> ToolExecutor | None:
        if spec.client_call is not None:
            return ClientExecutor(self.client_calls, conversation, spec)
        try:
            return await self.kernels.executor_for(conversation, spec)
        except KernelGone:
            return None

    async def _resume(self, recovered: Recovered) -> None:
        for spec, conversation, handle in recovered.continued:
            if spec.client_call is not None:
                self.client_calls.follow(spec, handle)
            else:
                self.kernels.sync_run(spec, conversation, handle)
        for spec, conversation, result in recovered.ended:
            path = spec.notebook_path or conversation.row.notebook_path
            await self.records.keep(spec, result, path)
            self.tasks.spawn(self._place_unless_open(spec.run_id, path, conversation), f"record of {spec.run_id}")

    async def _place_unless_open(self, run_id: str, path: str | None, conversation: Conversation) -> None:
        """Write the record into the notebook, unless its page connects again, with a document of its own to save."""
        kernel_id = conversation.kernel_id or ""
        await self.pages.wait_for(path, kernel_id, PAGE_SECONDS)

        async def is_open() -> bool:
            has_cards = any(channel.conversation is conversation for channel in self.channels)
            return has_cards or self.documents.are_open(path, kernel_id)

        await self.records.place(run_id, is_open)

    async def status(self) -> dict[str, Any]:
        """The body of `GET status`, without keys and addresses of endpoints. `trouble` is why the log can't be opened
        or written."""
        trouble = str(self._failure) if self._failure is not None else None
        return {
            "version": __version__,
            "protocol": PROTOCOL_VERSION,
            "model": await self._model_name(),
            "kernels": self.kernels.kernel_ids(),
            "channels": len(self.channels),
            "policy_cap": self._settings.policy_cap,
            "trouble": trouble or (self._runtime.log_fault if self._runtime is not None else None),
        }

    async def _model_name(self) -> str | None:
        try:
            return (await in_own_thread(self.models.resolve)).name
        except AgentKernelError:
            return None

    async def list_changes(self, kernel_id: str) -> list[ChangeView]:
        """The changes of files and cells by a kernel's calls that can be undone or were, the oldest first."""
        runtime, kernel = await self.runtime(), await self.kernels.find(kernel_id)
        listed: list[tuple[str, ChangeView]] = []
        for change in await kernel.changes() if kernel is not None else ():
            with suppress(UnknownApproval):  # its conversation was deleted
                call = await runtime.find_call(change.approval_id)
                if (await runtime.conversation(call.conversation_id)).kernel_id == kernel_id:
                    listed.append((call.ended_at or "", change_view(call, change.state)))
        return [view for _, view in sorted(listed, key=lambda one: one[0])]

    def is_shown(self, run_id: str) -> bool:
        """Whether an open page shows a run now."""
        return any(channel.shows(run_id) for channel in self.channels)

    async def create_conversation(
        self, *, kernel_id: str | None, model: str | None, conversation_id: str | None = None
    ) -> Conversation:
        """Create a conversation, by an id of the client's choice where it has one.

        Raises `ConfigurationError` for a model that is not configured."""
        path = await self.records.paths.notebook_of(kernel_id) if kernel_id is not None else None
        if model is not None:
            await in_own_thread(lambda: self.models.resolve(model, path))
        runtime = await self.runtime()
        return await runtime.create_conversation(
            kernel_id=kernel_id, model=model, notebook_path=path, conversation_id=conversation_id
        )

    async def start_run(self, conversation_id: str, asked: RunSpec, *, asked_by: str | None) -> None:
        """Start a run that no cell has announced.

        Raises `UnknownConversation`, `KernelGone`, `ConfigurationError`, and `CarriedOutElsewhere` if another server on
        the same log has an open run of the conversation.
        """
        conversation = await (await self.runtime()).conversation(conversation_id)
        kernel_id = conversation.kernel_id
        path = await self.records.paths.notebook_of(kernel_id) if kernel_id is not None else None
        await conversation.start_undeclared(replace(asked, notebook_path=path), asked_by=asked_by)

    async def _on_contents_action(self, logger: Any, schema_id: str, data: dict[str, Any]) -> None:  # noqa: ARG002 -- Jupyter's signature
        """A listener of Jupyter's contents events: all that knows a notebook by its path follows a rename, of it or of
        a folder that it is in."""
        if data.get("action") == "get" and not self._is_warm and str(data.get("path")).endswith(".ipynb"):
            notebook = Path(self._root, str(data["path"]).strip("/"))
            self.tasks.spawn(asyncio.to_thread(self._warm_up, notebook), "imports")
        old, new = str(data.get("source_path", "")).strip("/"), str(data.get("path", "")).strip("/")
        if data.get("action") != "rename" or not old or not new:
            return
        self.records.on_rename(old, new)
        try:
            if self._runtime is not None:
                await self._runtime.rename_notebooks(old, new)
        except LogUnavailable as error:
            self._logger.warning("The log does not know yet that %s is %s now: %s", old, new, error)
        await self.records.paths.on_rename(old, new)

    async def list_calls(self, state: str | None) -> list[ListedCall]:
        """The calls of all conversations in a state (`None`: in any), with the present paths of their notebooks."""
        return await self.records.paths.follow(await (await self.runtime()).list_calls(state))

    async def list_runs(self, ended: int, run_id: str | None = None) -> list[ListedRun]:
        """The runs of all conversations: the open ones, and the latest `ended` that have ended. With `run_id`, that one
        alone, or none."""
        found = await (await self.runtime()).list_runs(ended if run_id is None else 0, run_id)
        runs = [run for run in found if run_id in (None, run.run_id)]
        shown = [run.model_copy(update={"shown": self.is_shown(run.run_id)}) for run in runs]
        return await self.records.paths.follow(shown)

    async def aclose(self) -> None:
        """Close the channels, kernels and tasks, then the runtime, which gives open runs and calls a final state."""
        for schema_id, listener in self._listeners:
            self._event_logger.remove_listener(schema_id=schema_id, listener=listener)
        for socket in [*self.channels, *self.page_sockets]:
            socket.close(1001, "The server is shutting down.")
        for stream in list(self.streams):
            stream.close()
        await self.kernels.aclose()
        await self.tasks.aclose()
        self.records.close()
        async with self._opening:
            if self._runtime is not None:
                await self._runtime.aclose()
                self._runtime = None
        await self.mcp_servers.aclose()
        await self.models.aclose()
