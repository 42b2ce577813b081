"""MCP servers for the tests of their tools: how they are configured, and runs that call them."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from agent_kernel.testing import FakeOpenAI, calls, say
from tests.server.client import Api
from tests.server.serving import Server
from tests.waiting import look_until

PEER = str(Path(__file__).with_name("mcp_peer.py"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("peer")


@pytest.fixture
def extension_traits(folder: Path) -> dict[str, Any]:
    peers = {name: {"command": sys.executable, "args": [PEER, name, str(folder)]} for name in ("modern", "legacy")}
    return {"mcp_servers": peers}


@pytest.fixture
def own_file(server: Server) -> Iterator[Callable[..., None]]:
    """Names the user's own servers."""
    file = Path(server.app.config_dir) / "mcp.json"

    def write(**servers: Any) -> None:
        file.write_text(json.dumps({"mcpServers": servers}))

    yield write
    file.unlink(missing_ok=True)


async def ready(api: Api) -> dict[str, Any]:
    """The servers once all are ready, and their tools by name."""

    async def found() -> Any:
        listed = await api.get("mcp-servers")
        return all(server["state"] == "ready" for server in listed["servers"]) and listed

    return {tool["name"]: tool for tool in (await look_until(found))["tools"]}


async def states(api: Api) -> dict[str, str]:
    """How the servers are, by name."""
    return {one["name"]: one["state"] for one in (await api.get("mcp-servers"))["servers"]}


async def approved(api: Api, model: FakeOpenAI, *asked: Any) -> Any:
    """The last of the calls of a run, each of which a person has approved."""
    model.add(calls(*asked), say("Done."))
    await api.begin()
    waiting: Any = None
    for _ in asked:
        waiting = await api.decide()
    return waiting


async def run_calls(api: Api, model: FakeOpenAI, *asked: Any) -> Any:
    """The conversation of a run that makes these calls, when it has ended."""
    await ready(api)
    return await api.ended((await approved(api, model, *asked))["conversation_id"])


async def until_unknown(api: Api, conversation_id: str) -> dict[str, Any]:
    """The first call, whose outcome becomes unknown; then the run goes on."""

    async def found() -> Any:
        [one] = (await api.get("conversations", conversation_id))["tool_calls"]
        return one["state"] == "unknown" and one

    one = await look_until(found)
    await api("POST", "approvals", one["approval_id"], "outcome", body={"answer": "continue"})
    await api.ended(conversation_id)
    return dict(one)


@asynccontextmanager
async def running(kind: str, folder: Path, port: int) -> AsyncIterator[asyncio.subprocess.Process]:
    """A server that is reached by HTTP."""
    arguments = [sys.executable, PEER, kind, str(folder), str(port)]
    program = await asyncio.create_subprocess_exec(*arguments, stderr=asyncio.subprocess.DEVNULL)
    try:
        yield program
    finally:
        if program.returncode is None:
            program.kill()
            await program.wait()
