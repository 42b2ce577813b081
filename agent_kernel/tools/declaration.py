"""Declarations of tools, which is all that the runtime knows of them. Their functions are with the executor."""

from collections.abc import Mapping
from dataclasses import replace

from agent_kernel.errors import ConfigurationError
from agent_kernel.protocol.tools import MOST_SECONDS, DeclaredApproval, ToolDeclaration

__all__ = ["DeclaredApproval", "ToolDeclaration", "cached", "checked_timeouts", "is_timeout"]


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


def cached(declaration: ToolDeclaration, cache: bool | float) -> ToolDeclaration:
    """The declaration with `cache=`: `True`, or the seconds for which an outcome may be given again. Raises
    `ConfigurationError`, which names the tool."""
    if cache is False:
        return declaration
    seconds = MOST_SECONDS if cache is True else cache
    if not is_timeout(seconds):
        raise ConfigurationError(
            f"The tool {declaration.name!r} can't be cached: cache= takes True or a number of seconds above 0, at most "
            f"{MOST_SECONDS:,}."
        )
    if not declaration.read_only:
        raise ConfigurationError(
            f"The tool {declaration.name!r} can't be cached: it is not read-only. Only where its calls change nothing, "
            "declare it with read_only=True."
        )
    return replace(declaration, cache_seconds=float(seconds))
