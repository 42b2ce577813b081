"""Others' programs against the MCP server: the official conformance suite, and qwen-code with a scripted model."""

import asyncio
import json
import os
import shutil
import subprocess
from pathlib import Path

import nbformat
import pytest

from agent_kernel.terminal.mcp_clients import form_for
from agent_kernel.testing import FakeOpenAI, call, say
from tests.server.client import Api
from tests.server.conftest import *  # noqa: F403 -- fixtures, which pytest finds by their names
from tests.server.serving import TOKEN, Server

pytestmark = [pytest.mark.soak, pytest.mark.kernel]
HERE = Path(__file__).parent
MODULES = HERE / "node_modules"
INSTALL = ("npm", "install", "--no-package-lock", "--no-audit", "--no-fund", "--silent")


@pytest.fixture(scope="session")
def node() -> Path:
    if not MODULES.exists():
        if shutil.which("npm") is None:
            pytest.skip("npm is not installed")
        subprocess.run(INSTALL, cwd=HERE, check=True, timeout=600)
    return MODULES / "node" / "bin" / "node"


async def said_by(*program: str | Path, environment: dict[str, str] | None = None, cwd: Path = HERE) -> str:
    """What a program says, which has to end well."""
    process = await asyncio.create_subprocess_exec(
        *map(str, program),
        cwd=cwd,
        env=os.environ | (environment or {}),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        async with asyncio.timeout(300):
            said, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
    assert process.returncode == 0, said.decode()[-5000:]
    return said.decode()


async def test_the_official_suite_for_servers_passes_but_for_the_named_differences(
    server: Server, node: Path, tmp_path: Path
) -> None:
    nbformat.write(nbformat.v4.new_notebook(), server.root / "sales.ipynb")
    suite = MODULES / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"
    url = server.url("http", ("agent-kernel", "mcp"), {"token": TOKEN})
    differences = ("--expected-failures", HERE / "differences.yml")
    await said_by(node, suite, "server", "--url", url, "-o", tmp_path, *differences)


async def test_qwen_code_finds_its_tool_asks_and_goes_on(
    server: Server, api: Api, model: FakeOpenAI, node: Path, tmp_path: Path
) -> None:
    nbformat.write(nbformat.v4.new_notebook(), server.root / "sales.ipynb")
    settings = tmp_path / ".qwen" / "settings.json"
    settings.parent.mkdir()
    settings.write_text(form_for("qwen", server.url("http", (), None).rstrip("?"), stdio=False)[0])
    tool = "mcp__jupyter__run_python"
    model.add(call("tool_search", query=f"select:{tool}"))
    model.add(call(tool, notebook_path="sales.ipynb", code="6 * 7"), say("It is 42."))
    environment = {**model.environment(), "OPENAI_MODEL": "fake", "HOME": str(tmp_path), "JUPYTER_TOKEN": TOKEN}
    qwen = MODULES / ".bin" / "qwen"
    asking = asyncio.create_task(
        said_by(
            *(node, qwen, "-p", "What is six times seven?", "--yolo", "--auth-type", "openai"),
            environment=environment,
            cwd=tmp_path,
        )
    )
    waiting = await api.next_approval(120)
    assert (waiting["client"], waiting["tool_input"]) == ("qwen-cli-mcp-client-jupyter", '{"code":"6 * 7"}')
    await api("POST", "approvals", waiting["approval_id"], body={"approved": True})
    assert "It is 42." in await asking
    assert "42" in json.dumps(model.requests[-1].body["messages"][-1])
