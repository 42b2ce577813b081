"""Whether a log has to be opened as soon as a server starts, or is likely to be. Found out without what a runtime
imports."""

import os
import sqlite3
from contextlib import closing
from pathlib import Path

from agent_kernel.errors import ConfigurationError
from agent_kernel.log.opening import open_to_read


def needs_opening(path: Path) -> bool:
    """False only where a log is as it should be and no run in it is open, or where one can be made once it is needed.

    True also where that can't be found out: opening the log says what is wrong. A log that one process holds alone is
    opened at once, so that the others are told as early as ever.
    """
    if not path.exists():
        return not _can_be_made(path.parent)
    if not os.access(path, os.R_OK | os.W_OK):
        return True
    try:
        sql, alone = open_to_read(path)
        with closing(sql):
            return alone or has_open_runs(sql)
    except (OSError, sqlite3.Error, ConfigurationError):
        return True


def was_used(path: Path) -> bool:
    """Whether an agent has ever run. False also where that can't be found out."""
    if not path.exists():
        return False
    try:
        sql, _ = open_to_read(path)
        with closing(sql):
            return sql.execute("SELECT 1 FROM runs LIMIT 1").fetchone() is not None
    except (OSError, sqlite3.Error, ConfigurationError):
        return False


def has_open_runs(sql: sqlite3.Connection) -> bool:
    return sql.execute("SELECT 1 FROM runs WHERE status IN ('queued', 'running') LIMIT 1").fetchone() is not None


def _can_be_made(directory: Path) -> bool:
    existing = next((one for one in (directory, *directory.parents) if one.exists()), None)
    return existing is not None and existing.is_dir() and os.access(existing, os.W_OK | os.X_OK)
