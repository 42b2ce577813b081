"""The file that says what came of a notebook, beside its log. It is there before the notebook begins, so that what has
begun is known after whatever ran it has died.

Who creates the file has the notebook: no file system lets two processes, or two hosts, create the same one. A lock
beside it is held until the notebook ends; the operating system releases it when its holder dies. It only tells "it
runs" from "it died". What keeps a notebook from being run twice is the file.
"""

import os
import socket
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Self

import orjson
from filelock import FileLock, Timeout
from pydantic import ValidationError

from agent_kernel.errors import ConfigurationError
from agent_kernel.export import read_run
from agent_kernel.log.opening import open_to_read
from agent_kernel.notebook.batch.job import AgentRun, Job, NotebookResult, Status, agent_log_of, plain
from agent_kernel.protocol.events import utc_now
from agent_kernel.tools.builtin.safe_open import replace_file

SUFFIX = ".result.json"
LOCK_SECONDS = 5.0
"""A report holds the lock for a moment, to see whether somebody else does."""
UNKNOWN = "Its log has what it did. It is run again only with --again."
UNDER_WAY = ("executing", "unknown")
"""The states of a call, in the log of a kernel that is gone, that leave open what it did."""
PROMPT_CHARACTERS = 80


class Unreadable(ValueError):
    """The file is there, and has no result: its disk was full, or it was copied in part."""


def result_path(log: Path) -> Path:
    return log.with_suffix(SUFFIX)


def log_path(result: Path) -> Path:
    """The text log that a file of this kind stands beside."""
    return result.with_name(f"{result.name.removesuffix(SUFFIX)}.log")


def read_result(path: Path) -> NotebookResult | None:
    """What the file says; `None` if there is none. Raises `Unreadable`."""
    try:
        return NotebookResult.model_validate(orjson.loads(path.read_bytes()))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, ValidationError) as error:
        raise Unreadable(f"{path} can't be read: {plain(str(error))[:200]}") from None


def misfit(job: Job) -> str:
    """Why the file of this job's name can't be the job's; "" if it can, or there is none."""
    try:
        found = read_result(result_path(job.log)) if job.log is not None else None
    except Unreadable:
        return ""  # then the job's outcome is unknown
    if found is None or found.parameters == job.parameters:
        return ""
    return (
        f"{job.log} is of {found.notebook} with other parameters. Give each set of parameters an --output FILE of its "
        "own, after which the log is named, or another --logs."
    )


def begun(job: Job) -> NotebookResult:
    """What is known of a notebook when it begins."""
    return NotebookResult(
        notebook=str(job.notebook),
        output=str(job.output),
        parameters=job.parameters,
        status="running",
        began_at=utc_now(),
        host=socket.gethostname(),
        process=os.getpid(),
        earlier_runs=len(agent_runs(job.log)) if job.log is not None else 0,
    )


def result_now(path: Path, *, held: bool) -> NotebookResult:
    """What a file that is there says, with what is known of a notebook that has begun and has not ended. `held`:
    whether another process holds the lock."""
    status: Status = "running" if held else "unknown"
    try:
        found = read_result(path)
    except Unreadable:
        found = None
    if found is None:
        return NotebookResult(status=status, error=f"It began, and {path.name} can't be read. {UNKNOWN}")
    if found.status != "running":
        return found
    began = f"It began at {found.began_at} on {found.host} in process {found.process}"
    if held:
        return found.model_copy(update={"error": f"{began}, and runs there."})
    runs = agent_runs(log_path(path))[found.earlier_runs :]
    tools = [tool for run in runs for tool in run.unknown]
    under_way = f" What was under way: {', '.join(tools)}." if tools else ""
    said = f"{began}, which died.{under_way} {UNKNOWN}"
    return found.model_copy(update={"status": status, "error": said, "runs": runs})


def agent_runs(log: Path) -> tuple[AgentRun, ...]:
    """What the agent's runs came to, the oldest first, by the agent's log beside this text log. A notebook without an
    agent has none, and what is wrong with one, the kernel says that writes to it."""
    path = agent_log_of(log)
    try:
        if not path.is_file():
            return ()
        with closing(open_to_read(path)[0]) as connection:
            found = connection.execute("SELECT run_id FROM runs ORDER BY number").fetchall()
            return tuple(_run(connection, run_id) for (run_id,) in found)
    except (OSError, sqlite3.Error, ConfigurationError):
        return ()


def _run(connection: sqlite3.Connection, run_id: str) -> AgentRun:
    result = read_run(connection, run_id).result
    first, *_ = result.run.prompt.strip().splitlines()
    return AgentRun(
        run_id=run_id,
        prompt=plain(first)[:PROMPT_CHARACTERS],
        status=result.run.status,
        calls=len(result.tool_calls),
        denied=sum(call.state == "denied" for call in result.tool_calls),
        error=plain(result.run.error.message) if result.run.error is not None else "",
        unknown=tuple(call.tool_name for call in result.tool_calls if call.state in UNDER_WAY),
    )


class ResultFile:
    """The file of one job, locked while it is open."""

    def __init__(self, job: Job, log: Path) -> None:
        self._job = job
        self._path = result_path(log)
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._lock = FileLock(_lock_path(self._path), timeout=LOCK_SECONDS, thread_local=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def begin(self, begins: NotebookResult) -> NotebookResult | None:
        """Note that the notebook begins. If it is not to be run, because it has begun before, returns what is known of
        that. Raises `OSError` if the file can't be written."""
        try:
            self._lock.acquire()
        except Timeout:
            return self._earlier(held=True)
        try:
            with self._path.open("xb") as file:
                file.write(_content(begins))
        except FileExistsError:
            earlier = self._earlier(held=False) if self._job.once else None
            if earlier is not None and not (self._job.again and earlier.status != "passed"):
                return earlier
            self._write(begins)
        return None

    def end(self, result: NotebookResult) -> None:
        """Write the result. Raises `OSError`."""
        self._write(result.model_copy(update={"ended_at": utc_now()}))

    def _write(self, result: NotebookResult) -> None:
        replace_file(self._path.resolve(), _content(result))

    def _earlier(self, *, held: bool) -> NotebookResult:
        said = {"notebook": str(self._job.notebook), "earlier": True}
        return result_now(self._path, held=held).model_copy(update=said)


def _content(result: NotebookResult) -> bytes:
    return orjson.dumps(result.model_dump(mode="json"), option=orjson.OPT_INDENT_2) + b"\n"


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
