"""`FileCard`, `CellCard`: the executor's description of a change, for the card on which a person decides."""

from dataclasses import dataclass
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from agent_kernel.protocol.calls import SeenCell
from agent_kernel.protocol.views import Preview, Warning

WARNING_CHARACTERS = 1_000


def _bounded(warning: Warning) -> Warning:
    if len(warning.title) + len(warning.detail) > WARNING_CHARACTERS:
        raise ValueError(f"a warning has {WARNING_CHARACTERS:,} characters at most")
    return warning


class FileCard(BaseModel):
    """The executor's description of the file that a call would change. Bounded, because it comes from a kernel."""

    model_config = ConfigDict(frozen=True, defer_build=True)

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


@dataclass(frozen=True, slots=True)
class CellCard:
    """The description of what a call would do to a cell of the notebook."""

    preview: Preview | None = None
    """Its `base` is the digest of the source that the model has seen, and that the cell must still have."""
    warnings: tuple[Warning, ...] = ()
    refusal: str = ""
    """Why the call is refused without asking a person; the model is told."""
    cells: tuple[SeenCell, ...] = ()
    """The cells whose whole source the refusal tells."""
