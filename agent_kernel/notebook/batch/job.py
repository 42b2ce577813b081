"""What is to be run, and what came of it, with text as it can be printed in a terminal and written as XML."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from agent_kernel.protocol.figures import left_out, plural

Status = Literal["passed", "failed", "stopped", "running", "unknown", "not_begun"]
"""`stopped`: by Ctrl+C, before or after it had begun. `running`: by another command. `unknown`: it began, and whatever
ran it died. `not_begun`: a report expected it."""

_ANSI = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")
_NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
MOST_CHARACTERS = 20_000
"""Of one text in a report: a traceback may hold all that was printed."""


@dataclass(frozen=True, slots=True)
class Job:
    """One notebook to be run."""

    notebook: Path
    output: Path
    """Where the executed notebook goes: whole, or as far as it came."""
    log: Path | None
    """The text log. The agent's own log, an SQLite file, stands beside it. `None` keeps neither."""
    parameters: str | None
    """The source of the cell that sets the parameters."""
    environ: Mapping[str, str]
    """The kernel's environment."""
    timeout: int | None
    """The longest time of one cell, in seconds."""
    allow_errors: bool
    """Whether the notebook goes on after a cell that fails, and passes."""
    once: bool = False
    """Whether what has begun before, as the file beside the log says, is not run again."""
    again: bool = False
    """With `once`: whether it is, if it did not pass."""


def agent_log_of(log: Path) -> Path:
    """The agent's log that stands beside a text log."""
    return log.with_suffix(".sqlite")


@dataclass(frozen=True, slots=True)
class CellResult:
    """A code cell that ran, or was to be run. Empty ones are left out."""

    number: int
    """Its position among all cells, from 1."""
    status: Literal["passed", "failed", "not_run"]
    seconds: float = 0.0
    error: str = ""
    """What it failed with, as plain text: a first line that says it in short, and the traceback."""


@dataclass(frozen=True, slots=True)
class AgentRun:
    """A run of an agent that the notebook started."""

    run_id: str
    prompt: str
    """Its first line."""
    status: str
    calls: int
    denied: int
    error: str = ""
    unknown: tuple[str, ...] = ()
    """The tools of calls of which nobody knows what came of them."""

    @property
    def words(self) -> str:
        calls = f"{plural(self.calls, 'call')}, {self.denied} denied"
        return f'{self.run_id} "{self.prompt}": {self.status}, {calls}. {self.error}'


class NotebookResult(BaseModel):
    """What came of a notebook: in the file beside its log, on the terminal and in reports."""

    model_config = ConfigDict(frozen=True)

    version: Literal[1] = 1
    notebook: str = ""
    output: str = ""
    parameters: str | None = None
    status: Status
    began_at: str | None = None
    ended_at: str | None = None
    host: str = ""
    process: int = 0
    earlier_runs: int = 0
    """How many runs the agent's log had before this notebook began."""
    seconds: float = 0.0
    cells: tuple[CellResult, ...] = ()
    runs: tuple[AgentRun, ...] = ()
    error: str = ""
    """Why the notebook failed or ended early, as plain text; "" if it passed."""
    earlier: bool = Field(default=False, exclude=True)
    """Whether this is what an earlier command came to, and nothing was run now."""


def plain(text: str) -> str:
    """The text without colours and control characters, and of a bounded length."""
    cleaned = _NOT_IN_XML.sub("�", _ANSI.sub("", text)).strip()
    more = len(cleaned) - MOST_CHARACTERS
    return cleaned if more <= 0 else f"{cleaned[:MOST_CHARACTERS]}… [{left_out(0, more)}]"
