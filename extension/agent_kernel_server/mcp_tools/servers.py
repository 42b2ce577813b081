"""`McpServers`: all MCP servers of this Jupyter server. Nothing of them is loaded or started before the first run, or
the first question about tools, and nothing at all where none is configured."""

import asyncio
import hashlib
import importlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from logging import Logger
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent_kernel.own_thread import in_own_thread
from agent_kernel.protocol.calls import ApprovedCall, Outcome
from agent_kernel.protocol.lists import ServersView, ServerToolView, ServerView
from agent_kernel.runtime.tasks import TaskOwner
from agent_kernel.tools.declaration import ToolDeclaration
from agent_kernel.tools.executor import Ask, OutputSink
from agent_kernel.tools.server_tools import tokens_of
from agent_kernel_server.mcp_tools.configuration import (
    FILE_NAME,
    FOLDER_FILE,
    NO_PACKAGE,
    FolderFile,
    Found,
    ServerConfig,
    of_entries,
    read_file,
    read_folder_file,
)

if TYPE_CHECKING:
    from agent_kernel_server.mcp_tools.tool_server import McpServer

Key = tuple[Path | None, str]

START_SECONDS = 5.0
"""How long a run waits for servers that start. A later one has the tools of those that were slower."""
_READ_SECONDS = 5.0


class McpServers:
    """Implements `agent_kernel.tools.executor.ServerTools`."""

    def __init__(
        self,
        *,
        directory: Path,
        root: Path,
        site: Mapping[str, Any],
        environ: Mapping[str, str],
        folder_of: Callable[[str | None], Path],
        secrets: Callable[[], Iterable[str]],
        redirect: Callable[[], str],
        tokens: Path,
        logger: Logger,
    ) -> None:
        """`directory` has the user's `mcp.json`, `site` are the servers of the site's configuration, `environ` is the
        environment at the server's start. Servers start in `root`. `folder_of` gives the folder of a notebook;
        `secrets` are the host's, which no server of a folder is given. `redirect` gives the address to which browsers
        come back from signing in, `tokens` is the directory for what they get there."""
        self._file = directory / FILE_NAME
        self._root = root
        self._site = site
        self._environ = environ
        self._folder_of = folder_of
        self._secrets = secrets
        self._redirect = redirect
        self._tokens = tokens
        self._log = logger
        self._tasks = TaskOwner()
        self._servers: dict[Key, McpServer] = {}
        """By the folder whose file has it (`None`: the user's and the site's) and its name."""
        self._running: dict[Key, asyncio.Task[None]] = {}
        self._decided: dict[tuple[Path, str], bool] = {}
        """By a folder's file and its digest, what a person has decided about it."""
        self._file_of: dict[Path, Path | None] = {}
        """By a notebook's folder, the folder whose file counts for it, as it was read last."""
        self._faults: tuple[str, ...] = ()
        self._reading = asyncio.Lock()

    async def offered(self, notebook_path: str | None, *, wait: bool = True) -> Sequence[ToolDeclaration]:
        if wait:
            await self._ready(await self._folder_file(notebook_path))
        here = {None, self._file_of.get(self._folder_of(notebook_path))}
        found: dict[str, ToolDeclaration] = {}
        for (folder, _), server in self._servers.items():
            for tool in server.tools if folder in here and server.state == "ready" else ():
                found.setdefault(tool.name, tool)
        return list(found.values())

    async def unallowed(self, notebook_path: str | None) -> dict[str, Any] | None:
        file = await self._folder_file(notebook_path)
        if file is None or not file.found.servers or (file.path, file.digest) in self._decided:
            return None
        return file.arguments(self._root)

    async def decide(self, arguments: dict[str, Any], notebook_path: str | None, *, allowed: bool) -> tuple[bool, str]:
        file = await self._folder_file(notebook_path)
        if file is None or file.digest != arguments.get("sha256"):
            return True, "The file was changed since. Nothing was started; the next run asks again."
        self._decided[(file.path, file.digest)] = allowed
        if not allowed:
            return False, ""
        await self._ready(file)
        states = [f"{one.config.name} is {one.state}" for (folder, _), one in self._servers.items() if folder]
        return False, f"Started: {', '.join(states)}. The next request has the tools of those that are ready."

    async def _folder_file(self, notebook_path: str | None) -> FolderFile | None:
        folder = self._folder_of(notebook_path)
        file: FolderFile | None = None
        try:
            async with asyncio.timeout(_READ_SECONDS):
                file = await in_own_thread(
                    lambda: read_folder_file(folder, self._root, self._environ, tuple(self._secrets()))
                )
        except (TimeoutError, OSError) as error:
            self._log.warning("The file %s of a notebook's folder can't be read: %s", FOLDER_FILE, error)
        self._file_of[folder] = file.path.parent if file is not None else None
        return file

    async def call(
        self, call: ApprovedCall, tool: ToolDeclaration, notebook_path: str | None, emit: OutputSink, ask: Ask
    ) -> Outcome:
        assert tool.origin is not None
        file = await self._folder_file(notebook_path)
        keys = [(None, tool.origin.server), (file.path.parent if file is not None else None, tool.origin.server)]
        if not any(key in self._servers for key in keys):  # this process has not started it yet, or it is not wanted
            await self._ready(file)
        server = next((self._servers[key] for key in keys if key in self._servers), None)
        if server is None:
            return Outcome("error", f"The server {tool.origin.server} is not configured any more. Nothing ran.")
        return await server.call(call, tool, self._folder_of(notebook_path).resolve(), emit, ask)

    async def view(self) -> ServersView:
        """The servers with their states, once those that start were waited for."""
        await self._ready()
        servers = [
            ServerView(
                name=one.config.name,
                whose=one.config.origin,
                state=one.state,
                error=one.error,
                tools=len(one.tools),
                tokens=tokens_of(one.tools),
                notes=list(one.notes),
            )
            for one in self._servers.values()
        ]
        tools = [
            ServerToolView(
                name=tool.name,
                description=tool.description,
                parameters=tool.parameters,
                approval=tool.approval,
                server=one.config.name,
                server_state=one.state,
                tool=tool.origin.tool if tool.origin is not None else None,
            )
            for one in self._servers.values()
            for tool in one.tools
        ]
        return ServersView(servers=servers, tools=tools, faults=list(self._faults))

    async def _ready(self, file: FolderFile | None = None) -> None:
        """Start what the configuration has now, and of a folder's `file` what a person has allowed, and wait a short
        time for those that are tried for the first time."""
        async with self._reading:
            found = await self._configured()
            self._faults = found.faults
            wanted: dict[Key, ServerConfig] = {(None, one.name): one for one in found.servers}
            for key, server in self._servers.items():  # of other folders
                if key[0] is not None and (file is None or key[0] != file.path.parent):
                    wanted[key] = server.config
            if file is not None and self._decided.get((file.path, file.digest)):
                both = found.and_(file.found)
                self._faults = both.faults
                wanted |= {(file.path.parent, one.name): one for one in both.servers if one.origin == "folder"}
            if wanted.keys() - self._servers.keys():
                try:
                    await in_own_thread(lambda: importlib.import_module("agent_kernel_server.mcp_tools.tool_server"))
                except ImportError:
                    self._faults = (*self._faults, NO_PACKAGE)
                    return
            self._start(wanted)
        waited = list(self._servers.values())  # others may be started meanwhile
        with suppress(TimeoutError):
            async with asyncio.timeout(START_SECONDS):
                for server in waited:
                    await server.tried.wait()
        for server in waited:
            server.tried.set()  # nobody waits for it twice

    async def _configured(self) -> Found:
        site = of_entries(self._site, "AgentKernelServer.mcp_servers", "site", self._environ)
        try:
            async with asyncio.timeout(_READ_SECONDS):
                own = await in_own_thread(lambda: read_file(self._file, "user", self._environ))
        except TimeoutError:
            own = Found(faults=(f"{FILE_NAME} could not be read within {_READ_SECONDS:g} s.",))
        if own.faults and not own.servers:  # in the middle of a change: what was there goes on
            kept = tuple(one.config for one in self._servers.values() if one.config.origin == "user")
            own = Found(kept, own.faults)
        return site.and_(own)

    def _start(self, wanted: Mapping[Key, ServerConfig]) -> None:
        """Start the servers that are new or changed, and end those that are not wanted any more."""
        for key, server in list(self._servers.items()):
            if wanted.get(key) != server.config:
                self._running.pop(key).cancel()
                del self._servers[key]
        for key, config in wanted.items():
            if key not in self._servers:
                from agent_kernel_server.mcp_tools.tool_server import McpServer  # which loads `mcp`

                mark = hashlib.sha256(f"{key[0]}\0{config.name}\0{config.url}".encode()).hexdigest()[:16]
                tokens = self._tokens / f"{mark}.json"
                server = self._servers[key] = McpServer(config, self._root, self._log, self._redirect(), tokens)
                self._running[key] = self._tasks.spawn(server.run(), f"MCP server {config.name}")

    def come_back(self, code: str, state: str, issuer: str | None) -> bool:
        """A person's browser was sent back from signing in. Whether a server waits for that."""
        waiting = [one.sign_in for one in self._servers.values() if one.sign_in is not None]
        return any(one.come_back(code, state, issuer) for one in waiting)

    async def aclose(self) -> None:
        await self._tasks.aclose()
        self._servers.clear()
        self._running.clear()
