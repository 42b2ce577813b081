"""How programs are told of the MCP server, each in its own form. None of the forms has a token in it."""

import json
import shlex
from collections.abc import Callable
from typing import Any

from agent_kernel.protocol.mcp import MCP_PATH

NAME = "jupyter"
TOKEN_NOTE = "The token is read from JUPYTER_TOKEN where the program starts."
_ASKED = {"type": "promptString", "id": "jupyter-token", "description": "Jupyter's token", "password": True}


def _claude(url: str, program: list[str] | None) -> str:
    if program is not None:
        return f"claude mcp add {NAME} -- {shlex.join(program)}"
    header = '--header "Authorization: Bearer $JUPYTER_TOKEN"'  # which the shell fills in
    return f"claude mcp add --transport http {NAME} {shlex.quote(url)} {header}"


def _codex(url: str, program: list[str] | None) -> str:
    how: dict[str, Any] = {"url": url, "bearer_token_env_var": "JUPYTER_TOKEN"}
    if program is not None:
        how = {"command": program[0], "args": program[1:]}
    lines = [f"{key} = {json.dumps(value)}" for key, value in how.items()]  # which is TOML, too
    return "\n".join([f"[mcp_servers.{NAME}]", *lines])


def _in_json(key: str, named: str, variable: str, kind: bool = False, **beside: Any) -> Callable[..., str]:
    """A form in JSON: servers are below `key`, an address is `named` so, and `variable` is the token's. With `kind`, a
    server says how it is reached; `beside` stands beside the servers where the token is needed."""

    def form(url: str, program: list[str] | None) -> str:
        how: dict[str, Any] = {named: url, "headers": {"Authorization": f"Bearer {variable}"}}
        if program is not None:
            how = {"command": program[0], "args": program[1:]}
        how = ({"type": "http" if program is None else "stdio"} if kind else {}) | how
        return json.dumps((beside if program is None else {}) | {key: {NAME: how}}, indent=2)

    return form


_vscode = _in_json("servers", "url", "${input:jupyter-token}", kind=True, inputs=[_ASKED])
FORMS: dict[str, tuple[Callable[[str, list[str] | None], str], str]] = {
    "claude": (_claude, "Run this command. Your shell fills in JUPYTER_TOKEN, and Claude Code keeps it."),
    "codex": (_codex, f"Put this into ~/.codex/config.toml. {TOKEN_NOTE}"),
    "vscode": (_vscode, "Put this into .vscode/mcp.json of a folder. VS Code asks for the token once."),
    "cursor": (
        _in_json("mcpServers", "url", "${env:JUPYTER_TOKEN}"),
        f"Put this into ~/.cursor/mcp.json. {TOKEN_NOTE}",
    ),
    "qwen": (
        _in_json("mcpServers", "httpUrl", "${JUPYTER_TOKEN}"),
        f"Put this into ~/.qwen/settings.json. {TOKEN_NOTE}",
    ),
}
"""By program: its form, and where that goes."""


def form_for(program: str, server: str, *, stdio: bool) -> tuple[str, str]:
    """The configuration for a program, and what to do with it. `server` is the Jupyter server's base URL; `stdio` means
    by `agent-kernel mcp`, which finds the token of a server on this machine by itself."""
    make, where = FORMS[program]
    text = make(server + MCP_PATH, ["agent-kernel", "mcp", "--server", server] if stdio else None)
    return text, where.partition(". ")[0].rstrip(".") + "." if stdio else where
