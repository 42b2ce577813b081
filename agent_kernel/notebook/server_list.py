"""The tools that a prompt has, for `%agent tools`: built-in ones and those of MCP servers, with the servers' states."""

from agent_kernel.protocol.lists import ServersView, ServerView
from agent_kernel.tools.builtin.declarations import BUILTIN_TOOLS
from agent_kernel.tools.review.hidden import reveal

HOW = (
    "No MCP server is configured. They are named in mcp.json in Jupyter's configuration directory: "
    '{"mcpServers": {NAME: {"command": ..., "args": [...]}}}'
)
_STATES = {
    "ready": "ready",
    "starting": "starts; later prompts have its tools",
    "sign in": "wants you to sign in",
    "down": "down, tried again",
}
_SHOWN = 100


def tools_table(found: ServersView) -> str:
    """The text of `%agent tools`."""
    parts = [f"Built in: {', '.join(tool.name for tool in BUILTIN_TOOLS)}"]
    parts += [_server(server, found) for server in found.servers]
    parts += [reveal(fault) for fault in found.faults]
    if not found.servers and not found.faults:
        parts.append(HOW)
    return "\n\n".join(parts)


def _server(server: ServerView, found: ServersView) -> str:
    whose = {"user": "yours", "site": "the site's", "folder": "this folder's"}[server.whose]
    head = f"{reveal(server.name)} ({whose}): {_STATES[server.state]}"
    cost = f", {server.tools} tools, about {server.tokens:,} tokens of each request" if server.tools else ""
    lines = [head + cost, *([f"  {reveal(server.error)}"] if server.error else [])]
    names = [tool.name for tool in found.tools if tool.server == server.name]
    lines += [f"  {name}" for name in names[:_SHOWN]]
    if len(names) > _SHOWN:
        lines.append(f"  and {len(names) - _SHOWN} more")
    return "\n".join([*lines, *(f"  {reveal(note)}" for note in server.notes)])
