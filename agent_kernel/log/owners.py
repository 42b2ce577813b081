"""Which process carries out a run, so that a second server on the same log leaves the first one's runs alone.

Each process with an open log holds a lock on a small file beside it, named after the process. The system releases the
lock when the process ends, however it ends. So a run whose owner's file is not locked was left open.
"""

import contextlib
import os
import secrets
import sqlite3
from datetime import UTC, datetime
from pathlib import Path

_FRESH_SECONDS = 60.0


class Owner:
    """This process, as the owner of the runs that it carries out. Used on the log's thread only."""

    def __init__(self, log_path: Path) -> None:
        """Raises `OSError` and `sqlite3.Error`."""
        self._log_path = log_path
        self.name = secrets.token_hex(8)
        os.close(os.open(self._file(self.name), os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        self._lock = _lock(self._file(self.name))
        self._sweep()

    def _sweep(self) -> None:
        """Remove the files of killed processes, but for those so new that their owner may be about to lock them."""
        now = datetime.now(UTC).timestamp()
        for file in self._log_path.parent.glob(f"{self._log_path.name}-owner-*"):
            with contextlib.suppress(FileNotFoundError):  # another process sweeps as well
                if now - file.stat().st_mtime > _FRESH_SECONDS:
                    self.lives_elsewhere(file.name.rpartition("-")[2])

    def lives_elsewhere(self, name: str) -> bool:
        """Whether another process that is alive owns what has this name."""
        file = self._file(name)
        if name == self.name or not file.exists():
            return False
        try:
            _lock(file).close()
        except sqlite3.OperationalError:
            return True
        file.unlink(missing_ok=True)
        return False

    def close(self) -> None:
        self._lock.close()
        self._file(self.name).unlink(missing_ok=True)

    def _file(self, name: str) -> Path:
        return self._log_path.with_name(f"{self._log_path.name}-owner-{name}")


def _lock(file: Path) -> sqlite3.Connection:
    """Lock a file by SQLite, whose locks work on every system. Raises `sqlite3.OperationalError` if it is locked."""
    connection = sqlite3.connect(file, isolation_level=None, timeout=0, check_same_thread=False)
    try:
        connection.execute("PRAGMA journal_mode = OFF")  # nothing is ever written, so no journal file is needed
        connection.execute("BEGIN EXCLUSIVE")
    except sqlite3.OperationalError:
        connection.close()
        raise
    return connection
