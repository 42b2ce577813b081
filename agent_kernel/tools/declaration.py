"""What a tool is to the runtime: a declaration. The function behind it lives with the executor."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import Field

from agent_kernel.errors import ConfigurationError

DeclaredApproval = Literal["ask", "allow", "deny", "dynamic"]
"""`dynamic`: the tool's own callable judges each call's arguments; it runs with the executor, and anything but a clear
answer counts as `ask`."""

MOST_SECONDS = 10**9
"""Of a timeout."""


@dataclass(frozen=True, slots=True)
class ToolDeclaration:
    name: str
    description: str
    parameters: dict[str, Any]
    """A JSON Schema of type object."""
    approval: DeclaredApproval = "ask"
    read_only: bool = False
    """Read-only calls may run beside each other and are allowed in plan mode."""
    runs_in: Literal["kernel", "page"] = "kernel"
    """`page`: a client answers it with a `tool_result` command (`ask_user`)."""
    timeout: Annotated[float | None, Field(gt=0, le=MOST_SECONDS, allow_inf_nan=False)] = None
    """Seconds that a call may run until it is interrupted; `None` means no limit."""


def is_timeout(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= MOST_SECONDS


def checked_timeouts(timeouts: Mapping[str, object], named: str) -> dict[str, float]:
    """Seconds that calls may run, by the name of the tool, as somebody wrote them. `named` is where they stand.

    Raises `ConfigurationError`, which names the tool.
    """
    for tool, seconds in timeouts.items():
        if not is_timeout(seconds):
            raise ConfigurationError(f"{named}: {tool} must be a number of seconds above 0, at most {MOST_SECONDS:,}.")
    return {tool: seconds for tool, seconds in timeouts.items() if isinstance(seconds, int | float)}
