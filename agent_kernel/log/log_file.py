"""Checks that the files on disk are still those of the open log, and as its last commit left them.

SQLite goes on with a file that was removed, replaced or overwritten: the open file still exists, and pages that were
read are in memory. A decision would then be in no file that a restart finds. So each transaction looks at the files
before its work and after its commit (four `stat` calls). SQLite's `data_version` shows what another server wrote to the
same log from what any other program did.
"""

import sqlite3
from pathlib import Path

from agent_kernel.errors import SERVER_AGAIN, LogUnavailable
from agent_kernel.log import audit
from agent_kernel.log.audit_head import HeadFile, missing
from agent_kernel.log.file_faults import ADVICE, explained, is_damage

_Seen = tuple[int, int, int, int]
"""Device, inode, size in bytes, and the time of the last change in nanoseconds."""


class LogFile:
    """The files of one open log. Used on the log's thread only, but for `fault`."""

    def __init__(self, path: Path, sql: sqlite3.Connection, *, alone: bool) -> None:
        """`alone`: whether no other process can open the log (see `opening`). On the file systems where that is so,
        sizes and times may be reported late; they are not compared."""
        self._paths = (path, path.with_name(f"{path.name}-wal"))
        self._sql = sql
        self._alone = alone
        self.fault: str | None = None
        """Why nothing is written any more until the server is restarted."""
        self._head = HeadFile(path, sql)
        self._seen = self._look()
        self._version = self._data_version()

    def check(self) -> None:
        """Call at the beginning of a transaction, when no other server can write. Raises `LogUnavailable`."""
        if self.fault is not None:
            raise LogUnavailable(self.fault)
        now = self._look()
        if now != self._seen:
            self._refuse_other_files(now)
            self._examine(now)
            self._seen = now

    def committed(self) -> None:
        """Call after a commit. Raises `LogUnavailable` if what was committed is not in the file at the log's path.
        Nothing is written from then on: the open file has what a restart would not find."""
        now = self._look()
        try:
            self._refuse_other_files(now)
        except LogUnavailable as error:
            self.fault = str(error)
            raise
        self._seen = now

    def rolled_back(self) -> None:
        """Call after a rollback: SQLite may have written pages of the transaction that did not fit into memory."""
        now = self._look()
        if self._same_files(now):
            self._seen = now

    def note(self, error: BaseException) -> BaseException:
        """The error to raise in place of one of SQLite's. A damaged file is not written any more; the first reason for
        that stays."""
        reason = explained(error)
        if not is_damage(error):
            return reason
        self.fault = self.fault or str(reason)
        return LogUnavailable(self.fault)

    def update_head(self) -> None:
        """Update the file with the audit trail's head."""
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
            f"Put the files back, or stop {SERVER_AGAIN} and start it again: a new log starts where there is none."
        )

    def _examine(self, now: tuple[_Seen | None, ...]) -> None:
        """Find out what changed the files, which are still the same ones. Raises `LogUnavailable` if it was not another
        server."""
        version = self._data_version()
        others, self._version = version != self._version, version
        if not others:
            if any(_size(one) < _size(then) for one, then in zip(now, self._seen, strict=True)):
                self._break("it was cut off")
            self._read_again()
        if (lost := missing(self._sql, self._head.head)) is not None:
            self._break(f"an older copy is in its place: {lost}")

    def _read_again(self) -> None:
        """Check the whole file as it is on disk, without what SQLite has in memory."""
        try:
            self._sql.execute("PRAGMA shrink_memory")
            (first,) = self._sql.execute("PRAGMA quick_check(1)").fetchone()
            fault = audit.check(self._sql)
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


def _look_at(path: Path) -> _Seen | None:
    try:
        seen = path.stat()
    except FileNotFoundError:
        return None
    return seen.st_dev, seen.st_ino, seen.st_size, seen.st_mtime_ns


def _size(seen: _Seen | None) -> int:
    return seen[2] if seen is not None else 0
