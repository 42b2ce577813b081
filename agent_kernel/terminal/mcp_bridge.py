"""`agent-kernel mcp`: leads programs that only start programs to the MCP server of a Jupyter server, over stdio.

Each request is one of its own to the Jupyter server, so nothing is lost when that is started again.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import httpx2
from mcp import Client, types
from mcp.client.streamable_http import streamable_http_client
from mcp.server.context import ServerRequestContext
from mcp.server.stdio import stdio_server
from mcp.shared._httpx_utils import create_mcp_http_client
from mcp.shared.exceptions import MCPError
from mcp_types import client_request_adapter
from mcp_types.methods import MONOLITH_RESULTS
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import TypeAdapter

from agent_kernel.protocol.mcp import MCP_PATH, mcp_server
from agent_kernel.terminal.connection import Place, server_at
from agent_kernel.version import __version__

NOT_THERE = "The Jupyter server at {} does not answer, or does not take this token. Start it, or set JUPYTER_TOKEN."
Context = ServerRequestContext[Any, Any]


def serve(server: str | None, token: str | None) -> None:
    """Serve until the input ends. Raises `Refused`."""
    anyio.run(_serve, server_at(server, token))


async def _serve(place: Place) -> None:
    async def forward(context: Context, params: Any) -> Any:
        """Raises `MCPError`, also where the server is not there."""
        request = client_request_adapter.validate_python({"method": context.method, "params": params})
        kind: Any = MONOLITH_RESULTS[context.method]
        result: TypeAdapter[Any] = TypeAdapter(kind)
        try:
            async with _connected(place, context) as client:
                report = context.session.report_progress
                return await client.session.send_request(request, result, progress_callback=report)
        except (MCPError, httpx2.HTTPError, OSError, ExceptionGroup) as error:
            cause = _cause(error)
            if cause is None:
                raise
            said = NOT_THERE.format(place.url)
            if isinstance(cause, MCPError):
                raise cause from None
            if context.method == "tools/call":  # so that the model reads it
                return types.CallToolResult(content=[types.TextContent(text=said)], is_error=True)
            raise MCPError(code=types.INTERNAL_ERROR, message=said) from None

    server = mcp_server(__version__, lambda _: forward)
    async with stdio_server() as (reading, writing):
        await server.run(reading, writing, server.create_initialization_options())


def _cause(error: BaseException) -> BaseException | None:
    """What the client's task groups raised, if that is a thing to say to the client."""
    if isinstance(error, BaseExceptionGroup):
        return next((cause for one in error.exceptions if (cause := _cause(one)) is not None), None)
    return error if isinstance(error, MCPError | httpx2.HTTPError | OSError) else None


@asynccontextmanager
async def _connected(place: Place, context: Context) -> AsyncIterator[Client]:
    """As the client that has started this program, by the name that it gave."""
    params = context.session.client_params
    headers = {"Authorization": f"token {place.token}"} if place.token else {}
    async with create_mcp_http_client(headers=headers) as http:
        transport = streamable_http_client(place.url + MCP_PATH, http_client=http)
        info = params.client_info if params is not None else None
        async with Client(transport, client_info=info, mode=MODERN_PROTOCOL_VERSIONS[-1], cache=None) as client:
            yield client
