"""What runtime and executor say of tools to each other: the declaration of a tool, and the card of a file's change."""

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from agent_kernel.protocol.views import Warning

DeclaredApproval = Literal["ask", "allow", "deny", "dynamic"]
"""`dynamic`: the tool's own callable judges each call's arguments; it runs with the executor, and anything but a clear
answer counts as `ask`."""

MOST_SECONDS = 10**9
"""Of a timeout."""

WARNING_CHARACTERS = 1_000


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


def _bounded(warning: Warning) -> Warning:
    if len(warning.title) + len(warning.detail) > WARNING_CHARACTERS:
        raise ValueError(f"a warning has {WARNING_CHARACTERS:,} characters at most")
    return warning


class FileCard(BaseModel):
    """What a card says of the file that a call would change. Bounded, because the runtime takes it from a kernel."""

    model_config = ConfigDict(frozen=True)

    diff: str = Field(default="", max_length=200_000)
    """Empty where nothing could be compared: the card shows the call's arguments."""
    left_out: str = Field(default="", max_length=200)
    """What of the diff is not shown."""
    facts: list[Annotated[str, Field(max_length=WARNING_CHARACTERS)]] = Field(default_factory=list, max_length=10)
    """Sentences for the top of the card."""
    warnings: list[Annotated[Warning, AfterValidator(_bounded)]] = Field(default_factory=list, max_length=10)
    base: str = Field(default="", max_length=64)
    """As `FileChange.base`; empty where nothing was read."""
    refusal: str = Field(default="", max_length=1_000)
    """Why nobody is asked; the model is told."""
