"""The file that says what came of a notebook, beside its log. It is there before the notebook begins, so that what has
begun is known after whatever ran it has died.

Who creates the file has the notebook: no file system lets two processes, or two hosts, create the same one. A lock
beside it is held until the notebook ends; the operating system releases it when its holder dies. It only tells "it
runs" from "it died". What keeps a notebook from being run twice is the file.
"""

import os
import socket
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

import orjson
from filelock import FileLock, Timeout
from pydantic import BaseModel, ConfigDict, ValidationError

from agent_kernel.notebook.batch.agent_runs import last_number, runs_after
from agent_kernel.notebook.batch.job import AgentRun, CellResult, Job, NotebookResult, agent_log_of, plain
from agent_kernel.protocol.events import utc_now
from agent_kernel.tools.builtin.safe_open import replace_file

SUFFIX = ".result.json"
LOCK_SECONDS = 5.0
"""A report holds the lock for a moment, to see whether somebody else does."""
UNKNOWN = "Its log has what it did. It is run again only with --again."


class Record(BaseModel):
    """The content of the file."""

    model_config = ConfigDict(frozen=True)

    version: Literal[1] = 1
    notebook: str
    output: str
    parameters: str | None
    status: Literal["began", "passed", "failed", "stopped"]
    began_at: str
    ended_at: str | None = None
    host: str
    process: int
    earlier_runs: int
    """The number of the last run in the agent's log before this notebook began."""
    seconds: float = 0.0
    cells: tuple[CellResult, ...] = ()
    runs: tuple[AgentRun, ...] = ()
    error: str = ""


class Unreadable(ValueError):
    """The file is there, and is no record: its disk was full, or it was copied in part."""


def result_path(log: Path) -> Path:
    return log.with_suffix(SUFFIX)


def log_path(result: Path) -> Path:
    """The text log that a file of this kind stands beside."""
    return result.with_name(f"{result.name.removesuffix(SUFFIX)}.log")


def read_record(path: Path) -> Record | None:
    """`None` if there is no such file. Raises `Unreadable`."""
    try:
        return Record.model_validate(orjson.loads(path.read_bytes()))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, ValidationError) as error:
        raise Unreadable(f"{path} can't be read: {plain(str(error))[:200]}") from None


def misfit(job: Job) -> str:
    """Why the file of this job's name can't be the job's; "" if it can, or there is none."""
    try:
        record = read_record(result_path(job.log)) if job.log is not None else None
    except Unreadable:
        return ""  # then the job's outcome is unknown
    if record is None or record.parameters == job.parameters:
        return ""
    return (
        f"{job.log} is of {record.notebook} with other parameters. Give each set of parameters an --output FILE of its "
        "own, after which the log is named, or another --logs."
    )


@dataclass(frozen=True, slots=True)
class Unfinished:
    """What is known of a notebook that has begun and has no result."""

    status: Literal["running", "unknown"]
    error: str
    runs: tuple[AgentRun, ...] = ()


def unfinished(path: Path, record: Record | None, *, held: bool) -> Unfinished:
    """`held`: whether another process holds the lock. The record is `None` if it can't be read."""
    if record is None:
        return Unfinished("running" if held else "unknown", f"It began, and {path.name} can't be read. {UNKNOWN}")
    began = f"It began at {record.began_at} on {record.host} in process {record.process}"
    if held:
        return Unfinished("running", f"{began}, and runs there.")
    runs = runs_after(agent_log_of(log_path(path)), record.earlier_runs)
    tools = [tool for run in runs for tool in run.unknown]
    under_way = f" What was under way: {', '.join(tools)}." if tools else ""
    return Unfinished("unknown", f"{began}, which died.{under_way} {UNKNOWN}", runs)


class ResultFile:
    """The file of one job, locked. Used by one thread."""

    def __init__(self, job: Job, log: Path) -> None:
        self._job = job
        self._agent_log = agent_log_of(log)
        self._path = result_path(log)
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._lock = FileLock(_lock_path(self._path), timeout=LOCK_SECONDS)
        self._record: Record | None = None
        """What this process has written."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        try:
            if self._record is not None and self._record.status == "began" and error is not None:
                said = plain(f"{type(error).__name__}: {error}")
                self.end(NotebookResult(self._job, "failed", error=said))
        finally:
            self._lock.release()

    def begin(self) -> NotebookResult | None:
        """Note that the notebook begins. If it is not to be run, because it has begun before, returns what is known of
        that. Raises `OSError` if the file can't be written."""
        try:
            self._lock.acquire()
        except Timeout:
            return self._unfinished(held=True)
        record = Record(
            notebook=str(self._job.notebook),
            output=str(self._job.output),
            parameters=self._job.parameters,
            status="began",
            began_at=utc_now(),
            host=socket.gethostname(),
            process=os.getpid(),
            earlier_runs=last_number(self._agent_log),
        )
        try:
            _create(self._path, _content(record))
        except FileExistsError:
            earlier = self._earlier() if self._job.once else None
            if earlier is not None and not (self._job.again and earlier.status != "passed"):
                return earlier
            replace_file(self._path.resolve(), _content(record))
        self._record = record
        return None

    def end(self, result: NotebookResult) -> None:
        """Write the result. Raises `OSError`."""
        assert self._record is not None
        said: dict[str, Any] = {name: getattr(result, name) for name in ("status", "seconds", "cells", "runs", "error")}
        self._record = self._record.model_copy(update={"ended_at": utc_now(), **said})
        replace_file(self._path.resolve(), _content(self._record))

    def _earlier(self) -> NotebookResult:
        """What the file says, which this process has locked."""
        record = self._read()
        if record is None or record.status == "began":
            return self._unfinished(held=False)
        job, status = self._job, record.status
        return NotebookResult(job, status, record.cells, record.runs, record.seconds, record.error, earlier=True)

    def _unfinished(self, *, held: bool) -> NotebookResult:
        found = unfinished(self._path, self._read(), held=held)
        return NotebookResult(self._job, found.status, runs=found.runs, error=found.error, earlier=True)

    def _read(self) -> Record | None:
        try:
            return read_record(self._path)
        except Unreadable:
            return None


def _create(path: Path, content: bytes) -> None:
    """Raises `FileExistsError`, `OSError`."""
    with path.open("xb") as file:
        file.write(content)


def _content(record: Record) -> bytes:
    return orjson.dumps(record.model_dump(mode="json"), option=orjson.OPT_INDENT_2) + b"\n"


def _lock_path(path: Path) -> Path:
    return path.with_name(f".{path.name}.lock")


def is_held(path: Path) -> bool:
    """Whether a process holds the lock. For those that don't. Raises `OSError` if the folder can't be written."""
    if not _lock_path(path).exists():
        return False
    try:
        with FileLock(_lock_path(path), timeout=0):
            return False
    except Timeout:
        return True
