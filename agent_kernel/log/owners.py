"""Which process carries a run out: a second server on the same log leaves the first one's runs alone.

Each open log holds the lock of a small file beside it. The system lets go of the lock when the process ends, however
it ends, so a run whose owner's file is not locked was left open.
"""

import os
import secrets
import sqlite3
from pathlib import Path


class Owner:
    """This process, as the owner of the runs that it carries out. Made, asked and closed on the log's thread."""

    def __init__(self, log_path: Path) -> None:
        """Raises `OSError` and `sqlite3.Error`."""
        self._log_path = log_path
        self.name = secrets.token_hex(8)
        os.close(os.open(self._file(self.name), os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        self._lock = _lock(self._file(self.name))

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
    """SQLite's lock is the one that works on every system. Raises `sqlite3.OperationalError` where it is held."""
    connection = sqlite3.connect(file, isolation_level=None, timeout=0, check_same_thread=False)
    try:
        connection.execute("BEGIN EXCLUSIVE")
    except sqlite3.OperationalError:
        connection.close()
        raise
    return connection
