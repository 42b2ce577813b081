"""How an MCP server is reached: as a process, or by HTTP. It loads `mcp`, a second of imports, and is loaded only where
servers are configured."""

import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import IO, Any

import httpx2
from mcp import StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import MCP_DEFAULT_SSE_READ_TIMEOUT, MCP_DEFAULT_TIMEOUT

from agent_kernel_server.mcp_tools import launcher
from agent_kernel_server.mcp_tools.configuration import ServerConfig

MOST_BYTES = 8_000_000
"""The largest message of a server, in bytes."""


class TooLarge(httpx2.StreamError):
    """A server sent more than `MOST_BYTES` at once."""


class _Reading:
    """A stream of a server's messages, which says when it has ended."""

    def __init__(self, stream: Any, on_end: Callable[[], None]) -> None:
        self._stream = stream
        self._on_end = on_end

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def __aiter__(self) -> "_Reading":
        return self

    async def __anext__(self) -> Any:
        try:
            return await self._stream.__anext__()
        except StopAsyncIteration:
            self._on_end()
            raise

    async def __aenter__(self) -> "_Reading":
        await self._stream.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> Any:
        self._on_end()
        return await self._stream.__aexit__(*error)


@asynccontextmanager
async def opened(
    config: ServerConfig, folder: Path, said: IO[str], auth: httpx2.Auth | None, on_end: Callable[[], None]
) -> AsyncIterator[Any]:
    """The streams to a server. `said` gets the end of what its process says on standard error, and refusals by HTTP;
    `on_end` is called when the connection has ended."""
    if config.command:
        async with stdio_client(_parameters(config, folder), errlog=said) as (read, write):  # type: ignore[arg-type]  # an open file, as subprocess takes it
            yield _Reading(read, on_end), write
        return
    timeout = httpx2.Timeout(MCP_DEFAULT_TIMEOUT, read=max(MCP_DEFAULT_SSE_READ_TIMEOUT, config.timeout))
    async with (
        httpx2.AsyncClient(
            headers=dict(config.headers), timeout=timeout, auth=auth, event_hooks={"response": [partial(_bound, said)]}
        ) as client,
        streamable_http_client(config.url, http_client=client, max_sse_event_size=MOST_BYTES) as (read, write),
    ):
        yield _Reading(read, on_end), write


def _parameters(config: ServerConfig, folder: Path) -> StdioServerParameters:
    """The package gives it a clean environment: PATH, HOME and the like, and what the configuration says."""
    command = list(config.command)
    if sys.platform != "win32":
        command = [sys.executable, "-I", launcher.__file__, str(MOST_BYTES), *command]
    return StdioServerParameters(
        command=command[0],
        args=command[1:],
        env=dict(config.env),
        cwd=str(folder / config.cwd if config.cwd else folder),
    )


class _Bounded(httpx2.AsyncByteStream):
    def __init__(self, stream: Any) -> None:
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        left = MOST_BYTES
        async for piece in self._stream:
            left -= len(piece)
            if left < 0:
                raise TooLarge(f"It sent a message of more than {MOST_BYTES // 1_000_000} MB.")
            yield piece

    async def aclose(self) -> None:
        await self._stream.aclose()


async def _bound(said: IO[str], response: httpx2.Response) -> None:
    """A hook of the HTTP client. A stream of events is bounded by the package, event by event."""
    if response.status_code in (401, 403) or response.status_code >= 500:
        said.write(f"\nIt answered with HTTP {response.status_code}.")
    if not response.headers.get("content-type", "").startswith("text/event-stream"):
        response.stream = _Bounded(response.stream)
