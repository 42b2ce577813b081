"""Models that runtime and executor exchange about tools: declarations, and descriptions of file changes."""

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from agent_kernel.protocol.views import Warning

DeclaredApproval = Literal["ask", "allow", "deny", "dynamic"]
"""`dynamic` means that the tool's own callable is asked about each call, with its arguments. It runs with the executor;
any answer but `ask`, `allow` or `deny` counts as `ask`."""

MOST_SECONDS = 10**9
"""The longest timeout."""

WARNING_CHARACTERS = 1_000


@dataclass(frozen=True, slots=True)
class ToolDeclaration:
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


def _bounded(warning: Warning) -> Warning:
    if len(warning.title) + len(warning.detail) > WARNING_CHARACTERS:
        raise ValueError(f"a warning has {WARNING_CHARACTERS:,} characters at most")
    return warning


class FileCard(BaseModel):
    """The executor's description of the file that a call would change. Bounded, because it comes from a kernel."""

    model_config = ConfigDict(frozen=True)

    diff: str = Field(default="", max_length=200_000)
    """The diff; empty if nothing could be compared, so that the card shows the call's arguments."""
    left_out: str = Field(default="", max_length=200)
    """What the diff omits."""
    facts: list[Annotated[str, Field(max_length=WARNING_CHARACTERS)]] = Field(default_factory=list, max_length=10)
    """Sentences for the top of the card."""
    warnings: list[Annotated[Warning, AfterValidator(_bounded)]] = Field(default_factory=list, max_length=10)
    base: str = Field(default="", max_length=64)
    """As `FileChange.base`; empty if nothing was read."""
    refusal: str = Field(default="", max_length=1_000)
    """Why the call is refused without asking a person; the model is told."""
