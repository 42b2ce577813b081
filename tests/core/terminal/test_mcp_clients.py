"""`agent-kernel mcp --print`: the configuration of each program, without a token."""

import json
import tomllib
from collections.abc import Callable
from typing import Any

import pytest

from agent_kernel.cli import main

URL = "http://localhost:8888/user/ana/"
MCP = f"{URL}agent-kernel/mcp"
Printed = Callable[..., str]
PROGRAM = ["mcp", "--server", URL]


@pytest.fixture
def printed(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Printed:
    monkeypatch.setenv("JUPYTER_TOKEN", "a-secret")

    def run(*options: str) -> str:
        assert main(["mcp", "--server", f"{URL}lab?token=another-secret", "--print", *options]) == 0
        said = capsys.readouterr()
        assert "secret" not in said.out + said.err
        return said.out

    return run


def test_claude_code(printed: Printed) -> None:
    header = '--header "Authorization: Bearer $JUPYTER_TOKEN"'
    assert printed("claude") == f"claude mcp add --transport http jupyter {MCP} {header}\n"
    assert printed("claude", "--stdio") == f"claude mcp add jupyter -- agent-kernel mcp --server {URL}\n"


def test_codex(printed: Printed) -> None:
    of_http = {"url": MCP, "bearer_token_env_var": "JUPYTER_TOKEN"}
    assert tomllib.loads(printed("codex")) == {"mcp_servers": {"jupyter": of_http}}
    of_program = {"command": "agent-kernel", "args": PROGRAM}
    assert tomllib.loads(printed("codex", "--stdio")) == {"mcp_servers": {"jupyter": of_program}}


@pytest.mark.parametrize(
    ("program", "key", "http", "token"),
    [
        ("vscode", "servers", {"type": "http", "url": MCP}, "${input:jupyter-token}"),
        ("qwen", "mcpServers", {"httpUrl": MCP}, "${JUPYTER_TOKEN}"),
    ],
)
def test_programs_with_json(printed: Printed, program: str, key: str, http: dict[str, Any], token: str) -> None:
    headers = {"headers": {"Authorization": f"Bearer {token}"}}
    assert json.loads(printed(program))[key] == {"jupyter": http | headers}
    started = json.loads(printed(program, "--stdio"))[key]["jupyter"]
    assert (started["command"], started["args"]) == ("agent-kernel", PROGRAM)
