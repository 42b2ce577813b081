"""Checks a kernel's declaration of a run, and makes the run's specification of it."""

from dataclasses import replace
from typing import Any

from pydantic import ValidationInfo, field_validator

from agent_kernel.approvals.limits import checked_limits
from agent_kernel.errors import ConfigurationError
from agent_kernel.protocol.budgets import BudgetLimits
from agent_kernel.protocol.kernel import Declared, RunDeclaration
from agent_kernel.runtime.settings import RunSpec
from agent_kernel.tools.builtin.declarations import no_looser


class CheckedDeclaration(RunDeclaration):
    @field_validator("budget", "conversation_budget", mode="before")
    @classmethod
    def _check_limits(cls, value: Any, info: ValidationInfo) -> BudgetLimits:
        if not isinstance(value, dict):
            raise ValueError("limits are an object")  # noqa: TRY004 -- pydantic takes no other
        try:
            return checked_limits(value, info.field_name or "budget")
        except ConfigurationError as error:
            raise ValueError(str(error)) from None


class CheckedDeclared(Declared):
    declaration: CheckedDeclaration


def spec_of(declaration: RunDeclaration, notebook_path: str | None) -> RunSpec:
    """The declared run. Its built-in tools are no looser than they ship."""
    tools = tuple(no_looser(tool) for tool in declaration.tools)
    return replace(RunSpec.from_declaration(declaration), tools=tools, notebook_path=notebook_path)
