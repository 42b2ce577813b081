"""The command line that puts a command inside bubblewrap: its own file system, processes and network.

Mounts are made from the outside in, so that each lies upon those around it.
"""

import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

from agent_kernel.tools.walls.room import PRIVATE, Room

MOST_PROCESSES = 512
_PLACES = "/usr/local/bin:/usr/bin:/bin:/run/current-system/sw/bin:/run/wrappers/bin"
"""Not the user's PATH nor this Python's environment, which may be in a notebook's folder."""
_APART = ("--unshare-all", "--die-with-parent", "--cap-drop", "ALL")
_LIMITED = f'ulimit -u {MOST_PROCESSES} 2>/dev/null || ulimit -p {MOST_PROCESSES} 2>/dev/null; exec "$@"'
"""In the words of Bash, or of dash."""


def find() -> str | None:
    return shutil.which("bwrap", path=_PLACES)


def command_line(program: str, room: Room, command: Sequence[str], seccomp: int) -> list[str]:
    """`seccomp` is an open file with a filter of system calls."""
    folder = ("--bind" if room.writable else "--ro-bind", str(room.folder), str(room.folder))
    mounts: dict[Path, Sequence[str]] = {
        Path("/"): ("--ro-bind", "/", "/"),
        Path("/dev"): ("--dev", "/dev"),
        # As root a fresh /proc lets these be written, without any capability.
        Path("/proc"): ("--proc", "/proc", "--ro-bind", "/proc/sys", "/proc/sys"),
        **{path: tuple(_hide(path, room)) for path in room.hidden},
        room.folder: folder,
        **{path: ("--ro-bind", str(path), str(path)) for path in room.kept},
    }
    if room.writable:
        mounts[Path("/dev/shm")] = ("--perms", "1777", "--tmpfs", "/dev/shm")
    read_only = [Path("/dev"), *(path for path in room.hidden if path.is_dir() and not _is_scratch(path, room))]
    return [
        program,
        *_APART,
        *(word for path in sorted(mounts) for word in mounts[path]),
        *(word for path in read_only for word in ("--remount-ro", str(path))),
        *("--seccomp", str(seccomp), "--chdir", str(room.folder), "--", "/bin/sh", "-c", _LIMITED, "sh", *command),
    ]


def _hide(path: Path, room: Room) -> Iterator[str]:
    if not path.is_dir():
        yield from ("--ro-bind", "/dev/null", str(path))
        return
    is_passage = any(one.is_relative_to(path) for one in (room.folder, *room.kept))
    mode = "1777" if _is_scratch(path, room) else "0755" if path in PRIVATE else "0111" if is_passage else "0000"
    yield from ("--perms", mode, "--tmpfs", str(path))


def _is_scratch(path: Path, room: Room) -> bool:
    return room.writable and path == PRIVATE[0]
