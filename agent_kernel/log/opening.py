"""Opens the log's file: shared with other processes, or held alone.

Processes share SQLite's write-ahead log through mapped memory. Some file systems can't map shared memory (many FUSE
mounts), and on a network home it is shared within one host only: two hosts that write the same log would damage it.
There the log is opened with `locking_mode=EXCLUSIVE`, by one process at a time. The file's format is the same.
"""

import os
import sqlite3
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from agent_kernel.errors import LogUnavailable
from agent_kernel.log.tables import refuse_other_schemas

T = TypeVar("T")

LOG_VARIABLE = "AGENT_KERNEL_LOG"
"""The environment variable that names the log of a kernel without a server. Each kernel needs a file of its own."""
_PAGE_BYTES = 8_192
"""Of a new log; one that exists keeps its own. The events of a run are about 1,500 bytes: of pages of 4,096, the
default, a quarter stays empty."""
LOCAL = "set AgentKernelServer.data_dir to a directory on a local disk"

_NETWORK = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "afs", "ceph", "lustre", "gpfs", "beegfs"}
    | {"fuse.sshfs", "fuse.glusterfs", "fuse.ceph-fuse", "fuse.juicefs"}
)
"""Types of mounts (see `proc(5)`) that other hosts may have mounted as well."""


def open_to_write(path: Path) -> tuple[sqlite3.Connection, bool]:
    """Open or create the file (mode 0600). The second value is whether it is held alone.

    Raises `OSError` and `sqlite3.Error`; `LogUnavailable` if another process holds it alone, `OtherSchema`.
    """
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    if not path.exists():  # opening and closing a file that SQLite has locked would release the lock
        # Created before SQLite opens it, so that it is never readable by others, not even for a moment.
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
    path.chmod(0o600)
    return _shared_or_alone(
        path,
        lambda _: sqlite3.connect(path, isolation_level=None, check_same_thread=False),
        f"PRAGMA page_size = {_PAGE_BYTES}",
        "PRAGMA journal_mode = WAL",
        advice=f"End it, or {LOCAL}.",
    )


def open_to_read(path: Path) -> tuple[sqlite3.Connection, bool]:
    """As `open_to_write`, for an existing log that is only read."""
    uri = path.resolve().as_uri()
    return _shared_or_alone(
        path,
        # A lock needs a file that is open for writing.
        lambda alone: sqlite3.connect(f"{uri}?mode={'rw' if alone else 'ro'}", uri=True),
        "PRAGMA query_only = ON",
        advice="End it and try again: nothing else can read the log meanwhile.",
    )


def read_apart(path: Path, work: Callable[[sqlite3.Connection], T]) -> T:
    """Do a read over one state of a log that this process has open, on a connection of its own: no commit waits for it.
    It sees all that was committed before. Creates no file."""
    connection = sqlite3.connect(f"{path.resolve().as_uri()}?mode=rw", uri=True, isolation_level=None)
    try:
        connection.execute("PRAGMA query_only = ON")
        connection.execute("PRAGMA busy_timeout = 5000")
        connection.execute("BEGIN")
        return work(connection)
    finally:
        connection.close()


def one_at_a_time(directory: Path) -> bool:
    """Whether a log in this directory would be held alone. Tries it with a file that is removed again.

    Raises `OSError` and `sqlite3.Error` if no log can be created there.
    """
    with tempfile.TemporaryDirectory(prefix=".agent-kernel-", dir=directory) as scratch:
        connection, alone = open_to_write(Path(scratch) / "log.sqlite")
        connection.close()
    return alone


def _shared_or_alone(
    path: Path,
    connect: Callable[[bool], sqlite3.Connection],
    *pragmas: str,
    advice: str,
) -> tuple[sqlite3.Connection, bool]:
    try:
        if not _is_on_network(path):
            try:
                return _begun(connect(False), path, pragmas), False
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode != sqlite3.SQLITE_IOERR_SHMMAP:
                    raise
        return _begun(connect(True), path, pragmas, alone=True), True
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY:
            raise
        raise LogUnavailable(
            f"Another process holds the log at {path} alone: a server, where the file system has no memory that "
            f"processes share (a network home, some FUSE mounts), or a tool that has it open. {advice}"
        ) from error


def _begun(
    connection: sqlite3.Connection, path: Path, pragmas: Sequence[str], *, alone: bool = False
) -> sqlite3.Connection:
    """The connection, once these pragmas and a first read have succeeded; else it is closed."""
    try:
        if alone:
            connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        refuse_other_schemas(connection, path)  # before anything changes the file
        for pragma in pragmas:
            connection.execute(pragma)
        connection.execute("PRAGMA user_version").fetchone()  # the first read fails if the file system lacks something
    except BaseException:
        connection.close()
        raise
    return connection


def _is_on_network(path: Path) -> bool:
    """Whether other hosts may have this file open. Always false where that can't be known: not on Linux."""
    if sys.platform != "linux":
        return False
    device = path.stat().st_dev
    if os.major(device) != 0:  # a disk of this host
        return False
    number = f"{os.major(device)}:{os.minor(device)}"
    try:
        mounts = Path("/proc/self/mountinfo").read_text(errors="replace")
    except OSError:  # no /proc, as in some jails
        return False
    for line in mounts.splitlines():
        fields, _, kind = line.partition(" - ")
        if fields.split(" ", 3)[2] == number:
            return kind.split(" ", 1)[0] in _NETWORK
    return False
