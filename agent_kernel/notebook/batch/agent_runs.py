"""Reads what the agent's runs of one notebook came to, and wait for, from the log that its kernel writes.

A notebook without an agent has no log. What is wrong with one, the kernel says that writes to it.
"""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TypeVar

from agent_kernel.errors import ConfigurationError
from agent_kernel.export import read_run
from agent_kernel.log import runs
from agent_kernel.log.opening import open_to_read
from agent_kernel.notebook.batch.job import AgentRun, plain
from agent_kernel.protocol.views import DelayView

MOST_PROMPT_CHARACTERS = 80
UNKNOWN = ("executing", "unknown")
"""The states of a call, in the log of a kernel that is gone, that leave open what it did."""
T = TypeVar("T")


def last_number(log: Path) -> int:
    """The number of the log's last run; 0 for a log that there is not."""
    query = "SELECT coalesce(max(number), 0) FROM runs"
    return _read(log, lambda connection: int(connection.execute(query).fetchone()[0]), 0)


def runs_after(log: Path, number: int) -> tuple[AgentRun, ...]:
    """The runs that a log has after that one, the oldest first."""

    def read(connection: sqlite3.Connection) -> tuple[AgentRun, ...]:
        found = connection.execute("SELECT run_id FROM runs WHERE number > ? ORDER BY number", (number,)).fetchall()
        return tuple(_run(connection, run_id) for (run_id,) in found)

    return _read(log, read, ())


def delay_after(log: Path, number: int) -> DelayView | None:
    """The wait for its model's service of a run that the log has after that one, if one waits now."""
    query = "SELECT run_id FROM runs WHERE number > ? AND status = 'running'"

    def read(connection: sqlite3.Connection) -> DelayView | None:
        views = (runs.read_run(connection, run_id) for (run_id,) in connection.execute(query, (number,)).fetchall())
        return next((view.delay for view in views if view.delay is not None), None)

    return _read(log, read, None)


def _read(log: Path, read: Callable[[sqlite3.Connection], T], otherwise: T) -> T:
    try:
        if not log.is_file():
            return otherwise
        with closing(open_to_read(log)[0]) as connection:
            return read(connection)
    except (OSError, sqlite3.Error, ConfigurationError):
        return otherwise


def _run(connection: sqlite3.Connection, run_id: str) -> AgentRun:
    result = read_run(connection, run_id).result
    first, *_ = result.run.prompt.strip().splitlines()
    return AgentRun(
        run_id=run_id,
        prompt=plain(first)[:MOST_PROMPT_CHARACTERS],
        status=result.run.status,
        calls=len(result.tool_calls),
        denied=sum(call.state == "denied" for call in result.tool_calls),
        error=plain(result.run.error.message) if result.run.error is not None else "",
        unknown=tuple(call.tool_name for call in result.tool_calls if call.state in UNKNOWN),
    )
