"""Whether the files on disk are still those of the log that is open, and as its last commit left them.

SQLite goes on with a file that was removed, replaced or written over: what it has open is still there, and what it has
read is in memory. A decision would then be on no disk that a restart finds. So each transaction looks at the files
before its work and after its commit (four `stat` calls). What another server on the same log writes is told from what
anybody else does by SQLite's `data_version`.
"""

import os
import sqlite3
from pathlib import Path

from agent_kernel.errors import LogUnavailable
from agent_kernel.log.audit import chain
from agent_kernel.log.audit.head import HeadFile, missing
from agent_kernel.log.faults import ADVICE, explained, is_damage

_Seen = tuple[int, int, int, int]
"""Device, inode, size and the time of the last change of a file."""


class LogFile:
    """Used on the log's thread only, but for `fault`."""

    def __init__(self, path: Path, sql: sqlite3.Connection, *, alone: bool) -> None:
        """`alone` where the log is held so: see `opening`. Such file systems may tell sizes and times late."""
        self._paths = (os.fspath(path), f"{os.fspath(path)}-wal")
        self._sql = sql
        self._alone = alone
        self.fault: str | None = None
        """Why nothing is written any more, until the server starts anew."""
        self._head = HeadFile(path, sql)
        self._seen = self._look()
        self._version = self._data_version()

    def check(self) -> None:
        """At the beginning of a transaction, which keeps other servers from writing. Raises `LogUnavailable`."""
        if self.fault is not None:
            raise LogUnavailable(self.fault)
        now = self._look()
        if now != self._seen:
            self._refuse_other_files(now)
            self._examine(now)
            self._seen = now

    def committed(self) -> None:
        """After a commit. Raises `LogUnavailable` where what was committed is not on disk at the log's path; nothing is
        written from then on, because the open file and who heard of it no longer agree."""
        now = self._look()
        try:
            self._refuse_other_files(now)
        except LogUnavailable as error:
            self.fault = str(error)
            raise
        self._seen = now

    def rolled_back(self) -> None:
        """After a transaction that `check` had let begin: what did not fit into memory was written all the same."""
        now = self._look()
        if self._same_files(now):
            self._seen = now

    def note(self, error: BaseException) -> BaseException:
        """What an error of SQLite means. A file that is damaged is not written any more."""
        told = explained(error)
        if is_damage(error):
            self.fault = str(told)
        return told

    def update_head(self) -> None:
        """Bring the file with the trail's head up to date."""
        if self.fault is None:
            self._head.update(self._sql)

    def _look(self) -> tuple[_Seen | None, ...]:
        seen = tuple(map(_look_at, self._paths))
        return tuple((*one[:2], 0, 0) if one is not None else None for one in seen) if self._alone else seen

    def _data_version(self) -> int:
        version: int = self._sql.execute("PRAGMA data_version").fetchone()[0]
        return version

    def _same_files(self, now: tuple[_Seen | None, ...]) -> bool:
        return all(
            before is None or (seen is not None and seen[:2] == before[:2])
            for seen, before in zip(now, self._seen, strict=True)
        )

    def _refuse_other_files(self, now: tuple[_Seen | None, ...]) -> None:
        if self._same_files(now):
            return
        gone = [path for path, seen in zip(self._paths, now, strict=True) if seen is None]
        what = f"{gone[0]} was removed" if gone else f"the file at {self._paths[0]} is another one now"
        raise LogUnavailable(
            f"Agent Kernel's log was pulled away: {what}. Nothing is decided or started without it. "
            "Put the files back, or restart the server: a new log starts where there is none."
        )

    def _examine(self, now: tuple[_Seen | None, ...]) -> None:
        """The same files, which this process has not changed."""
        version = self._data_version()
        others, self._version = version != self._version, version
        if not others:
            if any(_size(one) < _size(then) for one, then in zip(now, self._seen, strict=True)):
                self._break("it was cut off")
            self._read_again()
        if (lost := missing(self._sql, self._head.head)) is not None:
            self._break(f"an older copy is in its place: {lost}")

    def _read_again(self) -> None:
        """All of the file, not what SQLite has of it in memory."""
        try:
            self._sql.execute("PRAGMA shrink_memory")
            (first,) = self._sql.execute("PRAGMA quick_check(1)").fetchone()
            fault = chain.check(self._sql)
        except sqlite3.DatabaseError as error:
            self._break(str(error))
        else:
            if first != "ok":
                self._break(first.replace("\n", " "))
            if fault is not None:
                self._break(f"entry {fault.number} of its audit trail does not fit: {fault.why}")

    def _break(self, why: str) -> None:
        self.fault = (
            f"Agent Kernel's log was changed by another program ({why[:300]}). Nothing is decided or started with it. "
            f"{ADVICE}"
        )
        raise LogUnavailable(self.fault)


def _look_at(path: str) -> _Seen | None:
    try:
        seen = os.stat(path)  # noqa: PTH116 -- twice as fast, and done four times a commit
    except FileNotFoundError:
        return None
    return seen.st_dev, seen.st_ino, seen.st_size, seen.st_mtime_ns


def _size(seen: _Seen | None) -> int:
    return seen[2] if seen is not None else 0
