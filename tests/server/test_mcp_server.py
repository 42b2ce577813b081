"""Agents outside, by the Model Context Protocol: each call of theirs is one of ours."""

import asyncio
import json
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

pytestmark = pytest.mark.kernel


@asynccontextmanager
async def connected(
    server: Server, name: str = "Claude Code", *, mode: Any = "auto", headers: dict[str, str] | None = None
) -> AsyncIterator[Client]:
    url = server.url("http", ("agent-kernel", "mcp"), None).rstrip("?")
    async with create_mcp_http_client(headers=headers or server.headers) as http:
        transport = streamable_http_client(url, http_client=http)
        async with Client(transport, client_info=Implementation(name=name, version="1"), mode=mode) as client:
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


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_client_of_either_age_sees_the_tools_and_reads_a_notebook(server: Server, path: str, mode: str) -> None:
    async with connected(server, mode=mode) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert {"list_notebooks", "run_python", "edit_cell", "read_file", "wait_for_call"} <= tools.keys()
        assert "run_shell" not in tools
        assert "notebook_path" in tools["run_python"].input_schema["properties"]
        listed = json.loads(text_of(await client.call_tool("list_notebooks", {})))
        assert {"notebook_path": path} in listed["notebooks"]
        read = await client.call_tool("read_notebook", {"notebook_path": path})
        assert not read.is_error
        assert "price = 3" in text_of(read)
    assert server.app.kernel_manager.list_kernel_ids() == ([server._kernel.kernel_id] if server._kernel else [])


async def test_a_call_of_a_client_is_a_card_that_a_person_approves(server: Server, api: Api, path: str) -> None:
    async with connected(server) as client:
        asked = asyncio.create_task(client.call_tool("run_python", {"notebook_path": path, "code": "6 * 7"}))
        call = await api.next_approval()
        assert (call["tool_name"], json.loads(call["tool_input"])) == ("run_python", {"code": "6 * 7"})
        assert (call["client"], call["notebook"]) == ("Claude Code", path)
        assert call["prompt"].startswith("Claude Code asks")
        await api("POST", "approvals", call["approval_id"], body={"approved": True, "digest": call["digest"]})
        done = await asked
    assert (text_of(done), done.is_error) == ("42", False)
