"""An agent outside with the official client, and a person who decides about its calls."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import nbformat
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client
from mcp.types import CallToolResult, Implementation, TextContent

from tests.server.client import Api
from tests.server.serving import Server


@asynccontextmanager
async def connected(
    server: Server, name: str = "Claude Code", headers: dict[str, str] | None = None, **options: Any
) -> AsyncIterator[Client]:
    url = server.url("http", ("agent-kernel",), None).rstrip("?")
    async with connected_to(url, headers or server.headers, name, **options) as client:
        yield client


@asynccontextmanager
async def connected_to(url: str, headers: dict[str, str], name: str, **options: Any) -> AsyncIterator[Client]:
    """A client of that name; `url` is the extension's own."""
    async with create_mcp_http_client(headers=headers) as http:
        transport = streamable_http_client(f"{url}/mcp", http_client=http)
        async with Client(transport, client_info=Implementation(name=name, version="1"), **options) as client:
            yield client


@pytest.fixture
def path(server: Server) -> str:
    """A notebook that no page has open, and that has no kernel."""
    cells = [nbformat.v4.new_code_cell("price = 3", id="one"), nbformat.v4.new_markdown_cell("# Sales", id="two")]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), server.root / "sales.ipynb")
    return "sales.ipynb"


def text_of(result: CallToolResult) -> str:
    return "\n".join(block.text for block in result.content if isinstance(block, TextContent))


def handle_in(result: CallToolResult) -> str:
    [line] = [line for line in text_of(result).splitlines() if line.startswith("handle: ")]
    return line.removeprefix("handle: ")


async def decided(api: Api, client: Client, name: str, arguments: dict[str, Any], **decision: Any) -> CallToolResult:
    """The result of a call, which a person has approved or decided on otherwise."""
    asked = asyncio.create_task(client.call_tool(name, arguments))
    await api.decide(**decision)
    return await asked
