"""`Gate`: the package's MCP server, from the first request on. The package is imported with that, as it is heavy."""

import asyncio
import importlib
from collections.abc import Awaitable, Callable, Coroutine, MutableMapping
from typing import TYPE_CHECKING, Any

from agent_kernel.errors import ConfigurationError
from agent_kernel.models.redaction import Secrets
from agent_kernel.runtime.tasks import TaskOwner
from agent_kernel_server.mcp_server.calls import ClientCalls
from agent_kernel_server.mcp_tools.configuration import NO_PACKAGE

if TYPE_CHECKING:
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[dict[str, Any], Receive, Send], Coroutine[Any, Any, None]]


class Gate:
    """The package's server, from the first request on."""

    def __init__(self, calls: ClientCalls, secrets: Callable[[], Secrets], tasks: TaskOwner) -> None:
        self.calls = calls
        self._secrets = secrets
        self._tasks = tasks
        self._opening = asyncio.Lock()
        self._sessions: StreamableHTTPSessionManager | None = None

    async def app(self) -> App:
        async with self._opening:
            if self._sessions is None:
                ready = asyncio.Event()
                self._sessions = await self._open()
                self._tasks.spawn(self._run(ready), "sessions of MCP clients")
                await ready.wait()
            return self._sessions.handle_request

    async def _open(self) -> "StreamableHTTPSessionManager":
        try:
            server = await asyncio.to_thread(importlib.import_module, "agent_kernel_server.mcp_server.server")
        except ImportError:
            raise ConfigurationError(NO_PACKAGE) from None
        manager = await asyncio.to_thread(importlib.import_module, "mcp.server.streamable_http_manager")
        made: StreamableHTTPSessionManager = manager.StreamableHTTPSessionManager(
            server.make_server(self.calls, self._secrets()), max_sessions=1_000
        )
        return made

    async def _run(self, ready: asyncio.Event) -> None:
        assert self._sessions is not None
        async with self._sessions.run():
            ready.set()
            await asyncio.Event().wait()
