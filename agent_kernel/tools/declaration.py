"""Declarations of tools, which is all that the runtime knows of them. Their functions are with the executor."""

from collections.abc import Mapping

from agent_kernel.errors import ConfigurationError
from agent_kernel.protocol.tools import MOST_SECONDS, DeclaredApproval, ToolDeclaration

__all__ = ["DeclaredApproval", "ToolDeclaration", "checked_timeouts", "is_timeout"]


def is_timeout(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= MOST_SECONDS


def checked_timeouts(timeouts: Mapping[str, object], named: str) -> dict[str, float]:
    """Validate timeouts in seconds by tool name. `named` says in the message where they come from.

    Raises `ConfigurationError`, which names the tool.
    """
    for tool, seconds in timeouts.items():
        if not is_timeout(seconds):
            raise ConfigurationError(f"{named}: {tool} must be a number of seconds above 0, at most {MOST_SECONDS:,}.")
    return {tool: seconds for tool, seconds in timeouts.items() if isinstance(seconds, int | float)}
