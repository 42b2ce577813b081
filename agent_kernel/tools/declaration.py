"""What a tool is to the brain: a declaration. The function behind it lives with the hands."""

from dataclasses import dataclass
from typing import Any, Literal

DeclaredApproval = Literal["ask", "allow", "deny", "dynamic"]
"""`dynamic`: the tool's own callable judges each call's arguments; it runs with the hands, and anything but a clear
answer counts as `ask`."""


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
    """`page`: a face answers it with a `tool_result` command (`ask_user`)."""
