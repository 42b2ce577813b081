"""What runtime and executor exchange about tools: a kernel's wire carries these as they are. `calls` has what they
exchange about calls."""

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import Field

DeclaredApproval = Literal["ask", "allow", "deny", "dynamic"]
"""`dynamic` means that the tool's own callable is asked about each call, with its arguments. It runs with the executor;
any answer but `ask`, `allow` or `deny` counts as `ask`."""

MOST_SECONDS = 10**9
"""The longest timeout, and the longest time that an outcome is kept."""


@dataclass(frozen=True, slots=True)
class ServerTool:
    """Where a tool of an MCP server is from. A notebook's kernel can't declare one."""

    server: str
    """The server's name in the configuration."""
    tool: str
    """The tool's name at the server."""
    hints: tuple[str, ...] = ()
    """The server's annotations that make a person more careful, such as `destructive`. The others count for nothing."""


@dataclass(frozen=True, slots=True)
class ToolDeclaration:
    """A tool as models and policy know it."""

    name: str
    description: str
    parameters: dict[str, Any]
    """A JSON Schema of type object."""
    approval: DeclaredApproval = "ask"
    read_only: bool = False
    """Read-only calls may run concurrently and are allowed in plan mode."""
    runs_in: Literal["kernel", "page"] = "kernel"
    """`page` tools such as `ask_user` are answered by a client with a `tool_result` command."""
    timeout: Annotated[float | None, Field(gt=0, le=MOST_SECONDS, allow_inf_nan=False)] = None
    """Seconds that a call may run until it is interrupted; `None` means no limit."""
    cache_seconds: Annotated[float | None, Field(gt=0, le=MOST_SECONDS, allow_inf_nan=False)] = None
    """Seconds for which an outcome may be given again to a call with the same arguments, of a read-only tool; `None`
    means that each call runs."""
    origin: ServerTool | None = None
    """Set for a tool of an MCP server."""
