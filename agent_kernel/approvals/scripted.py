"""Answers to approvals that are written beforehand, for runs with nobody to ask."""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ScriptedDecision:
    """It answers the next undecided call that it matches, once."""

    approved: bool
    tool_name: str | None = None
    """`None` matches any tool."""
    reason: str | None = None


ScriptEntry = ScriptedDecision | bool | str | tuple[str, bool] | tuple[str, bool, str]
"""A decision; `True` or `False` for any tool; a text, which is the reason of a denial; or (tool name, approved) and
(tool name, approved, reason)."""

_ENOUGH = 1_000
"""A scripted decision answers one call; runs are limited to far fewer calls than this."""


def approve_all(*, times: int = _ENOUGH) -> tuple[ScriptedDecision, ...]:
    """Approve the next `times` calls, whatever they are."""
    return (ScriptedDecision(approved=True),) * times


def deny_all(reason: str | None = None, *, times: int = _ENOUGH) -> tuple[ScriptedDecision, ...]:
    """Deny the next `times` calls, whatever they are."""
    return (ScriptedDecision(approved=False, reason=reason),) * times


def script(entries: Iterable[ScriptEntry]) -> tuple[ScriptedDecision, ...]:
    """Answer the calls in order: `script([True, "not that table", ("run_shell", False)])`."""
    return tuple(_decision(entry) for entry in entries)


def _decision(entry: ScriptEntry) -> ScriptedDecision:
    match entry:
        case ScriptedDecision():
            return entry
        case bool():
            return ScriptedDecision(approved=entry)
        case str():
            return ScriptedDecision(approved=False, reason=entry)
        case (tool_name, approved):
            return ScriptedDecision(approved=approved, tool_name=tool_name)
        case (tool_name, approved, reason):
            return ScriptedDecision(approved=approved, tool_name=tool_name, reason=reason)
