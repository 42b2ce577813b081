"""Reads what the agent's runs of one notebook came to, and wait for, from the log that its kernel writes."""

import sqlite3
from contextlib import closing
from pathlib import Path

from agent_kernel.errors import ConfigurationError
from agent_kernel.export import read_run
from agent_kernel.log import runs
from agent_kernel.log.opening import open_to_read
from agent_kernel.notebook.batch.job import AgentRun, plain
from agent_kernel.protocol.views import DelayView

MOST_PROMPT_CHARACTERS = 80
UNKNOWN = ("executing", "unknown")
"""The states of a call, in the log of a kernel that is gone, that leave open what it did."""


def last_number(log: Path) -> int:
    """The number of the log's last run; 0 for a log that there is not."""
    if not log.is_file():
        return 0
    try:
        with closing(open_to_read(log)[0]) as connection:
            return int(connection.execute("SELECT coalesce(max(number), 0) FROM runs").fetchone()[0])
    except sqlite3.Error:
        return 0  # the kernel, which writes to it, says what is wrong with it


def runs_after(log: Path, number: int) -> tuple[AgentRun, ...]:
    """The runs that a log has after that one, the oldest first. A notebook without an agent has no log."""
    if not log.is_file():
        return ()
    try:
        with closing(open_to_read(log)[0]) as connection:
            query = "SELECT run_id FROM runs WHERE number > ? ORDER BY number"
            return tuple(_read(connection, str(row[0])) for row in connection.execute(query, (number,)).fetchall())
    except (sqlite3.Error, ConfigurationError):
        return ()


def delay_after(log: Path, number: int) -> DelayView | None:
    """The wait for its model's service of a run that the log has after that one, if one waits now."""
    if not log.is_file():
        return None
    try:
        with closing(open_to_read(log)[0]) as connection:
            query = "SELECT run_id FROM runs WHERE number > ? AND status = 'running'"
            views = [runs.read_run(connection, str(row[0])) for row in connection.execute(query, (number,)).fetchall()]
    except (sqlite3.Error, ConfigurationError):
        return None
    return next((view.delay for view in views if view.delay is not None), None)


def _read(connection: sqlite3.Connection, run_id: str) -> AgentRun:
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
