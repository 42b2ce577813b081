"""Scripted decisions on approvals, for headless runs."""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ScriptedDecision:
    """A decision on the next undecided call that matches, used once."""

    approved: bool
    tool_name: str | None = None
    """The tool to match; `None` matches any."""
    reason: str | None = None


ScriptEntry = ScriptedDecision | bool | str | tuple[str, bool] | tuple[str, bool, str]
"""A decision; `True` or `False` for any tool; a text, which is the reason of a denial; or (tool name, approved) and
(tool name, approved, reason)."""

_ENOUGH = 1_000
"""The default number of decisions. Each answers one call, and runs are limited to far fewer calls."""


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
