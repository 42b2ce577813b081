"""`agent-kernel mcp`: the MCP server of a Jupyter server for programs that only start programs, over stdio.

Each request is one of its own to the Jupyter server, so nothing is lost when that is started again.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import anyio
import httpx2
from mcp import Client, types
from mcp.client.streamable_http import streamable_http_client
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.shared._httpx_utils import create_mcp_http_client
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from agent_kernel.protocol.mcp import MCP_INSTRUCTIONS, MCP_PATH
from agent_kernel.terminal.connection import Place
from agent_kernel.terminal.mcp_clients import server_at
from agent_kernel.version import __version__

NOT_THERE = "The Jupyter server at {} does not answer, or does not take this token. Start it, or set JUPYTER_TOKEN."
Context = ServerRequestContext[Any, Any]
Page = types.PaginatedRequestParams | None
T = TypeVar("T")


def serve(server: str | None, token: str | None) -> None:
    """Serve until the input ends. Raises `Refused`."""
    place = server_at(server)
    anyio.run(_serve, Place(place.url, token or place.token))


async def _serve(place: Place) -> None:
    server = _Bridge(place).server()
    async with stdio_server() as (reading, writing):
        await server.run(reading, writing, server.create_initialization_options())


class _Bridge:
    def __init__(self, place: Place) -> None:
        self._place = place

    def server(self) -> Server[Any]:
        return Server(
            "agent-kernel",
            title="Agent Kernel",
            version=__version__,
            instructions=MCP_INSTRUCTIONS,
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
            on_list_resources=self._list_resources,
            on_list_resource_templates=self._list_templates,
            on_read_resource=self._read_resource,
        )

    @asynccontextmanager
    async def _connected(self, context: Context) -> AsyncIterator[Client]:
        """As the client that has started this program, by the name that it gave."""
        params = context.session.client_params
        headers = {"Authorization": f"token {self._place.token}"} if self._place.token else {}
        async with create_mcp_http_client(headers=headers) as http:
            transport = streamable_http_client(self._place.url + MCP_PATH, http_client=http)
            info = params.client_info if params is not None else None
            async with Client(transport, client_info=info, mode=MODERN_PROTOCOL_VERSIONS[-1], cache=None) as client:
                yield client

    async def _ask(self, context: Context, ask: Callable[[Client], Awaitable[T]]) -> T:
        """Raises `MCPError`, also where the server is not there."""
        try:
            async with self._connected(context) as client:
                return await ask(client)
        except BaseExceptionGroup as group:
            refused = group.subgroup(MCPError)
            if refused is not None:
                raise _first(refused) from None
            if group.subgroup((httpx2.HTTPError, OSError)) is None:
                raise
        except (httpx2.HTTPError, OSError):
            pass
        raise MCPError(code=types.INTERNAL_ERROR, message=NOT_THERE.format(self._place.url))

    async def _list_tools(self, context: Context, _: Page) -> types.ListToolsResult:
        return await self._ask(context, lambda client: client.list_tools())

    async def _call_tool(self, context: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        async def report(progress: float, total: float | None, message: str | None) -> None:
            await context.session.report_progress(progress, total, message)

        try:
            return await self._ask(
                context, lambda client: client.call_tool(params.name, params.arguments, progress_callback=report)
            )
        except MCPError as error:  # a model can read a result
            text = types.TextContent(text=error.error.message)
            return types.CallToolResult(content=[text], is_error=True)

    async def _list_resources(self, context: Context, _: Page) -> types.ListResourcesResult:
        return await self._ask(context, lambda client: client.list_resources())

    async def _list_templates(self, context: Context, _: Page) -> types.ListResourceTemplatesResult:
        return await self._ask(context, lambda client: client.list_resource_templates())

    async def _read_resource(
        self, context: Context, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        return await self._ask(context, lambda client: client.read_resource(params.uri))


def _first(group: BaseExceptionGroup[MCPError]) -> MCPError:
    found = group.exceptions[0]
    return _first(found) if isinstance(found, BaseExceptionGroup) else found
