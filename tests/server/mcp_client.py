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
from mcp.types import (
    CallToolResult,
    Implementation,
    TextContent,
)

from tests.server.client import Api
from tests.server.serving import Server


@asynccontextmanager
async def connected(
    server: Server,
    name: str = "Claude Code",
    *,
    mode: Any = "auto",
    headers: dict[str, str] | None = None,
    **options: Any,
) -> AsyncIterator[Client]:
    url = server.url("http", ("agent-kernel", "mcp"), None).rstrip("?")
    async with create_mcp_http_client(headers=headers or server.headers) as http:
        transport = streamable_http_client(url, http_client=http)
        info = Implementation(name=name, version="1")
        async with Client(transport, client_info=info, mode=mode, **options) as client:
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


async def all_waiting(api: Api, count: int) -> list[Any]:
    """The calls that wait for a decision, once there are so many."""
    async with asyncio.timeout(60):
        while True:
            if len(calls := await api.pending()) == count:
                return calls
            await asyncio.sleep(0.02)


async def decide(api: Api, call: Any, **decision: Any) -> None:
    status, body = await api("POST", "approvals", call["approval_id"], body={"digest": call["digest"], **decision})
    assert status == 200, body


async def decided(api: Api, client: Client, name: str, arguments: dict[str, Any], **decision: Any) -> CallToolResult:
    """The result of a call, about which a person has decided."""
    asked = asyncio.create_task(client.call_tool(name, arguments))
    await decide(api, await api.next_approval(), **decision)
    return await asked
