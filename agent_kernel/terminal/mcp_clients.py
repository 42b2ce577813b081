"""How programs are told of the MCP server, each in its own form. None of the forms has a token in it."""

import json
import shlex
from collections.abc import Callable, Mapping

from agent_kernel.protocol.mcp import MCP_PATH
from agent_kernel.terminal.connection import Place, place_of, running_servers

NAME, DEFAULT_SERVER = "jupyter", "http://localhost:8888/"
TOKEN_NOTE = "The token is read from JUPYTER_TOKEN where the program starts."
_BEARER = "Bearer ${{{}JUPYTER_TOKEN}}"


def server_at(address: str | None) -> Place:
    """The server at an address; without one, the newest on this machine. Raises `Refused`."""
    if address is not None:
        return place_of(address)
    running = running_servers()
    return running[-1] if running else place_of(DEFAULT_SERVER)


def _program(server: str) -> list[str]:
    return ["agent-kernel", "mcp", "--server", server]


def _json(value: object) -> str:
    return json.dumps(value, indent=2)


def _claude(server: str, *, stdio: bool) -> str:
    if stdio:
        return f"claude mcp add {NAME} -- {shlex.join(_program(server))}"
    header = '--header "Authorization: Bearer $JUPYTER_TOKEN"'  # which the shell fills in
    return f"claude mcp add --transport http {NAME} {shlex.quote(server + MCP_PATH)} {header}"


def _codex(server: str, *, stdio: bool) -> str:
    if stdio:
        command, *arguments = map(json.dumps, _program(server))
        return f"[mcp_servers.{NAME}]\ncommand = {command}\nargs = [{', '.join(arguments)}]"
    url = json.dumps(server + MCP_PATH)
    return f'[mcp_servers.{NAME}]\nurl = {url}\nbearer_token_env_var = "JUPYTER_TOKEN"'


def _stdio(server: str) -> dict[str, object]:
    command, *arguments = _program(server)
    return {"command": command, "args": arguments}


def _vscode(server: str, *, stdio: bool) -> str:
    if stdio:
        return _json({"servers": {NAME: {"type": "stdio", **_stdio(server)}}})
    asked = {"type": "promptString", "id": "jupyter-token", "description": "Jupyter's token", "password": True}
    headers = {"Authorization": "Bearer ${input:jupyter-token}"}
    return _json({"inputs": [asked], "servers": {NAME: {"type": "http", "url": server + MCP_PATH, "headers": headers}}})


def _cursor(server: str, *, stdio: bool) -> str:
    headers = {"Authorization": _BEARER.format("env:")}
    one = _stdio(server) if stdio else {"url": server + MCP_PATH, "headers": headers}
    return _json({"mcpServers": {NAME: one}})


def _qwen(server: str, *, stdio: bool) -> str:
    headers = {"Authorization": _BEARER.format("")}
    one = _stdio(server) if stdio else {"httpUrl": server + MCP_PATH, "headers": headers}
    return _json({"mcpServers": {NAME: one}})


FORMS: Mapping[str, tuple[Callable[..., str], str]] = {
    "claude": (_claude, "Run this command. Your shell fills in JUPYTER_TOKEN, and Claude Code keeps it."),
    "codex": (_codex, f"Put this into ~/.codex/config.toml. {TOKEN_NOTE}"),
    "vscode": (_vscode, "Put this into .vscode/mcp.json of a folder. VS Code asks for the token once."),
    "cursor": (_cursor, f"Put this into ~/.cursor/mcp.json. {TOKEN_NOTE}"),
    "qwen": (_qwen, f"Put this into ~/.qwen/settings.json. {TOKEN_NOTE}"),
}
"""By program: its form, and where that goes."""


def form_for(program: str, server: str, *, stdio: bool) -> tuple[str, str]:
    """The configuration for a program, and what to do with it. `server` is the Jupyter server's base URL; `stdio` means
    by `agent-kernel mcp`, which finds the token of a server on this machine by itself."""
    make, where = FORMS[program]
    return make(server, stdio=stdio), where.partition(". ")[0].rstrip(".") + "." if stdio else where
