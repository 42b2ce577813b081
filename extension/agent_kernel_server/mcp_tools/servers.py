"""`McpServers`: all MCP servers of this Jupyter server. Nothing of them is loaded or started before the first run, or
the first question about tools, and nothing at all where none is configured."""

import asyncio
import importlib
from collections.abc import Callable, Mapping, Sequence
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
from agent_kernel_server.mcp_tools.configuration import FILE_NAME, Found, ServerConfig, of_entries, read_file

if TYPE_CHECKING:
    from agent_kernel_server.mcp_tools.server import McpServer

START_SECONDS = 5.0
"""How long a run waits for servers that start. A later one has the tools of those that were slower."""
_READ_SECONDS = 5.0


def _import_package() -> None:
    importlib.import_module("agent_kernel_server.mcp_tools.server")


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
        logger: Logger,
    ) -> None:
        """`directory` has the user's `mcp.json`, `site` are the servers of the site's configuration, `environ` is the
        environment at the server's start. Servers start in `root`. `folder_of` gives the folder of a notebook."""
        self._file = directory / FILE_NAME
        self._root = root
        self._site = site
        self._environ = environ
        self._folder_of = folder_of
        self._log = logger
        self._tasks = TaskOwner()
        self._servers: dict[str, McpServer] = {}
        self._running: dict[str, asyncio.Task[None]] = {}
        self._faults: tuple[str, ...] = ()
        self._reading = asyncio.Lock()

    async def offered(self, notebook_path: str | None) -> Sequence[ToolDeclaration]:  # noqa: ARG002 -- see `ServerTools`
        await self._ready()
        found: dict[str, ToolDeclaration] = {}
        for server in self._servers.values():
            for tool in server.tools if server.state == "ready" else ():
                found.setdefault(tool.name, tool)
        return list(found.values())

    async def call(
        self, call: ApprovedCall, tool: ToolDeclaration, notebook_path: str | None, emit: OutputSink, ask: Ask
    ) -> Outcome:
        assert tool.origin is not None
        server = self._servers.get(tool.origin.server)
        if server is None:  # this process has not started it yet, or it is not configured any more
            await self._ready()
            server = self._servers.get(tool.origin.server)
        if server is None:
            return Outcome("error", f"The server {tool.origin.server} is not configured any more. Nothing ran.")
        return await server.call(call, tool, self._folder_of(notebook_path).resolve(), emit, ask)

    async def view(self) -> ServersView:
        """The servers with their states, once those that start were waited for."""
        await self._ready()
        servers = [
            ServerView(
                name=name,
                whose=one.config.origin,
                state=one.state,
                error=one.error,
                tools=len(one.tools),
                tokens=tokens_of(one.tools),
                notes=list(one.notes),
            )
            for name, one in self._servers.items()
        ]
        tools = [
            ServerToolView(
                name=tool.name,
                description=tool.description,
                parameters=tool.parameters,
                approval=tool.approval,
                server=name,
                server_state=one.state,
                tool=tool.origin.tool if tool.origin is not None else None,
            )
            for name, one in self._servers.items()
            for tool in one.tools
        ]
        return ServersView(servers=servers, tools=tools, faults=list(self._faults))

    async def _ready(self) -> None:
        """Start what the configuration has now, and wait a short time for those that are tried for the first time."""
        async with self._reading:
            found = await self._configured()
            self._faults = found.faults
            if any(one.name not in self._servers for one in found.servers):
                await in_own_thread(_import_package)
            self._start(found.servers)
        with suppress(TimeoutError):
            async with asyncio.timeout(START_SECONDS):
                for server in list(self._servers.values()):
                    await server.tried.wait()

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

    def _start(self, wanted: Sequence[ServerConfig]) -> None:
        """Start the servers that are new or changed, and end those that are not wanted any more."""
        configs = {config.name: config for config in wanted}
        for name, server in list(self._servers.items()):
            if configs.get(name) != server.config:
                self._running.pop(name).cancel()
                del self._servers[name]
        for name in configs.keys() - self._servers.keys():
            from agent_kernel_server.mcp_tools.server import McpServer  # which loads `mcp`

            server = self._servers[name] = McpServer(configs[name], self._root, self._log)
            self._running[name] = self._tasks.spawn(server.run(), f"MCP server {name}")

    async def aclose(self) -> None:
        await self._tasks.aclose()
        self._servers.clear()
        self._running.clear()
