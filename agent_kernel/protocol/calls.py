"""What runtime and executor exchange about calls: a kernel's wire carries these as they are. `file_cards` has the rest.
A first prompt waits for none of it."""

import hashlib
from dataclasses import dataclass
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from agent_kernel.protocol.ids import CellId
from agent_kernel.protocol.vocabulary import Approval, ExecutionStatus, WallKind, WallLevel


class SeenCell(BaseModel):
    """A cell whose whole source the model was told."""

    model_config = ConfigDict(frozen=True, defer_build=True)

    cell_id: CellId
    digest: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


@dataclass(frozen=True, slots=True)
class Place:
    """The resolved path of a file tool's call, with links followed. It is resolved once for a call, which is judged by
    it and opens nothing else."""

    path: Annotated[str, Field(max_length=8_192)]
    """The absolute path; empty if it is not known."""
    inside: Annotated[str | None, Field(max_length=8_192)] = None
    """The path relative to the notebook's folder, with `/`; `None` if it is outside."""
    linked: bool = False
    """Whether the path as written goes through a link."""

    def spellings(self) -> tuple[str, ...]:
        """The forms of the path that rules are compared with, the shortest first."""
        return (self.path,) if self.inside is None else (self.inside, self.path)


@dataclass(frozen=True, slots=True)
class Walls:
    """The walls that are wanted around a shell command."""

    level: WallLevel = "workspace"
    hidden: tuple[str, ...] = ()
    """Absolute paths that the command can't open, beside those that are always hidden."""
    environment: tuple[str, ...] = ()
    """Names of variables, or patterns, that it may know beside those that it always may."""


@dataclass(frozen=True, slots=True)
class WallsFound:
    """The walls that an executor's machine has."""

    kind: WallKind
    why: Annotated[str, Field(max_length=1_000)] = ""
    """Why there are none."""


@dataclass(frozen=True, slots=True)
class ApprovedCall:
    """An approved call from the log. These arguments run, never ones that a page sends."""

    approval_id: str
    """Identifies the call across conversations. Each is executed at most once; an edited call keeps its id, a repeated
    one gets a new id."""
    tool_call_id: str
    """The model's id, for logs. Calls of other conversations may have the same one."""
    tool_name: str
    arguments_json: str
    digest: str
    base: str = ""
    """Identifies the file content that a person was shown (`FileChange.base`); empty if any content may be changed. For
    a shell command: the walls that its card showed, without which it does not run."""
    place: Place | None = None
    """The only place that a file tool's call may open; `None` if the approval is not bound to one."""
    walls: Walls | None = None
    """For a shell command."""
    may_ask: bool = False
    """Whether somebody is there to answer `input()` and `getpass()`."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a call ended."""

    status: ExecutionStatus
    content: str
    """The text for the model, untruncated within the executor's own limit."""
    undo: Annotated[str | None, Field(max_length=40)] = None
    """Set if `ToolExecutor.undo` can undo the call: when the replaced file was last changed (UTC, ISO 8601), or an
    empty text if there was none."""
    output_file: Annotated[str | None, Field(max_length=4096)] = None
    """The file with the whole output, if one was written."""
    cells: tuple[SeenCell, ...] = ()
    """The cells whose whole source `content` tells."""


@dataclass(frozen=True, slots=True)
class ToolVerdict:
    """A tool's own verdict on a call, from the tool's own callable and the file system."""

    approval: Approval
    """The answer of the tool's approval callable."""
    place: Place | None = None
    """The resolved place of a file tool's call."""
    may_edit: bool = False
    """Whether the mode `edit` covers writing to `place`."""
    walls: WallsFound | None = None
    """For a shell command: the walls of the machine that it would run on."""


def source_digest(source: str) -> str:
    """The SHA-256 of a cell's source as UTF-8, in hexadecimal digits."""
    return hashlib.sha256(source.encode("utf-8", "surrogatepass")).hexdigest()
