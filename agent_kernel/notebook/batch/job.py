"""What is to be run, and what came of it."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Status = Literal["passed", "failed", "stopped"]
"""`stopped`: by Ctrl+C, before or after it had begun."""


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


@dataclass(frozen=True, slots=True)
class NotebookResult:
    job: Job
    status: Status
    cells: tuple[CellResult, ...] = ()
    runs: tuple[AgentRun, ...] = ()
    seconds: float = 0.0
    error: str = ""
    """Why the notebook failed or ended early, as plain text; "" if it passed."""
