"""The report on a batch: what came of each notebook of a folder of logs, also of those that still run or that died."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, get_args

from pydantic import BaseModel, ConfigDict

from agent_kernel.errors import ConfigurationError
from agent_kernel.notebook.batch.job import AgentRun, CellResult, Status, agent_log_of
from agent_kernel.notebook.batch.results import (
    SUFFIX,
    Unreadable,
    is_held,
    log_path,
    read_record,
    unfinished,
)
from agent_kernel.notebook.batch.trail import Trail, read_trail
from agent_kernel.protocol.events import utc_now

NOT_BEGUN = "It has not begun: there is no result of it."


class Notebook(BaseModel):
    """One notebook in the report."""

    model_config = ConfigDict(frozen=True)

    name: str
    """The path of its log, without the ending, below the folder of the logs."""
    status: Status
    notebook: str = ""
    output: str = ""
    parameters: str | None = None
    began_at: str | None = None
    ended_at: str | None = None
    host: str = ""
    seconds: float = 0.0
    cells: tuple[CellResult, ...] = ()
    runs: tuple[AgentRun, ...] = ()
    error: str = ""
    audit_entries: int = 0
    audit_hash: str = ""
    """The hash of the last entry of its audit trail. Noted here, it tells whether the trail was changed since."""
    audit_fault: str = ""
    """Why its audit trail is not whole; "" if it is."""


class Report(BaseModel):
    """The report, as JSON."""

    version: Literal[1] = 1
    made_at: str
    counts: dict[Status, int]
    """How many notebooks came to what; those that none did are left out."""
    notebooks: tuple[Notebook, ...]

    @property
    def passed(self) -> bool:
        return all(one.status == "passed" and not one.audit_fault for one in self.notebooks)


def collect(logs: Path, expected: Sequence[str]) -> tuple[Report, list[Trail]]:
    """The report on a folder of logs, and the notebooks' audit trails. Raises `ConfigurationError`."""
    if not logs.is_dir():
        raise ConfigurationError(f"There is no folder {logs}. Give the one of `agent-kernel run --logs`.")
    paths = {path.relative_to(logs).as_posix().removesuffix(SUFFIX): path for path in logs.rglob(f"*{SUFFIX}")}
    if not paths and not expected:
        raise ConfigurationError(f"{logs} has no results (*{SUFFIX}). `agent-kernel run --logs` writes them.")
    notebooks, trails = [], []
    for name in sorted({*paths, *expected}):
        if (path := paths.get(name)) is None:
            notebooks.append(Notebook(name=name, status="not_begun", error=NOT_BEGUN))
            continue
        trail = read_trail(name, agent_log_of(log_path(path)))
        trails.append(trail)
        notebooks.append(_read(name, path, trail))
    numbers = Counter(one.status for one in notebooks)
    counts = {status: numbers[status] for status in get_args(Status) if numbers[status]}
    return Report(made_at=utc_now(), counts=counts, notebooks=tuple(notebooks)), trails


def _read(name: str, path: Path, trail: Trail) -> Notebook:
    held = is_held(path)  # asked first: what ends in between has written its result
    try:
        record = read_record(path)
    except Unreadable:
        record = None
    said: dict[str, Any] = {"audit_entries": trail.entries, "audit_hash": trail.hash, "audit_fault": trail.fault}
    if record is not None:
        fields = ("notebook", "output", "parameters", "began_at", "ended_at", "host", "seconds", "cells")
        said |= {field: getattr(record, field) for field in fields}
        if record.status != "began":
            return Notebook(name=name, status=record.status, runs=record.runs, error=record.error, **said)
    found = unfinished(path, record, held=held)
    return Notebook(name=name, status=found.status, runs=found.runs, error=found.error, **said)
