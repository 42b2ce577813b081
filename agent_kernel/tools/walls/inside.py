"""Puts a command inside walls, and knows which this machine has, what a command has left and where it met them.

Walls are found by running `true` inside them, never by reading versions.
"""

import functools
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import assert_never

from agent_kernel.protocol.calls import Walls, WallsFound
from agent_kernel.protocol.vocabulary import WallLevel
from agent_kernel.tools.walls import bubblewrap, seccomp
from agent_kernel.tools.walls.bubblewrap import MOST_PROCESSES
from agent_kernel.tools.walls.room import Room, make_room

_MET = re.compile(
    r"permission denied|operation not permitted|read-only file system|network is unreachable|connection refused|"
    r"could not resolve|failed to connect|name resolution|name or service not known|cannot assign requested address|"
    r"invalid cross-device link|resource temporarily unavailable|operation not supported",
    re.IGNORECASE,
)
_NAMED = re.compile(r"'([^']+)'|(\S+): permission denied", re.IGNORECASE)
"""The files that such a line names."""
NOT_KNOWN = "not known yet"
"""Said where the kernel has not told which walls its machine has."""
SAID = re.compile(r"(?<=alls: )(?:none|workspace|read-only) \([^\n]{0,1200}\)")
"""What a card and a result say of the walls: the same notebook may run on machines with other ones."""
_TAIL = 20_000
_LONGEST_LINE = 300
_SECONDS = 20.0
_MOST_WORDS = 200
_MOST_NAMED = 5
LAUNCHER = Path(__file__).with_name("landlock_launcher.py")


def words_of(found: WallsFound | None, level: WallLevel, *, outside: bool = False) -> str:
    """The walls around a command, as its card and its result say: `workspace (bubblewrap)`."""
    if outside:
        return "none (it runs outside)"
    if level == "none":
        return "none (this site wants none)"
    if found is None:
        return f"{level} ({NOT_KNOWN})"
    match found.kind:
        case "bubblewrap":
            return f"{level} (bubblewrap)"
        case "Landlock":
            return f"{level} (Landlock; UDP is open)"
        case "none":
            return f"none ({' '.join(found.why.split())})"
        case never:
            assert_never(never)


def meaning_of(words: str) -> str:
    """What walls mean for a command, for the person who decides on it: of `words`, those of `words_of`."""
    if words.startswith("none ("):
        return "Runs without walls: it can do all that you can."
    writes = "writes nothing" if words.startswith("read-only (") else "writes only in this folder"
    network = "no network but UDP" if words.endswith("UDP is open)") else "no network"
    where = " if this machine has them" if words.endswith(f"({NOT_KNOWN})") else ""
    return f"Runs inside walls{where}: {writes}, {network}."


def is_inside(words: str) -> bool | None:
    """Whether these words, of `words_of`, are those of walls that are there; `None` if that is not known."""
    return None if words == "" or words.endswith(f"({NOT_KNOWN})") else not words.startswith("none (")


@contextmanager
def put_inside(found: WallsFound, room: Room, command: Sequence[str]) -> Iterator[tuple[list[str], tuple[int, ...]]]:
    """The command line that runs a command inside, and the open files that it is started with. Raises `OSError`,
    `FileNotFoundError` where bubblewrap is not there."""
    match found.kind:
        case "bubblewrap":
            program = bubblewrap.find()
            if program is None:
                raise FileNotFoundError("bwrap")
            with _in_memory(seccomp.program(found.kind, writable=room.writable)) as file:
                yield bubblewrap.command_line(program, room, command, file), (file,)
        case "Landlock":
            yield _landlock_line(room, command), ()
        case "none":
            raise ValueError("there are no walls to put a command inside")
        case never:
            assert_never(never)


@contextmanager
def _in_memory(content: bytes) -> Iterator[int]:
    file = os.memfd_create("agent-kernel-seccomp")
    try:
        os.write(file, content)
        os.lseek(file, 0, os.SEEK_SET)
        yield file
    finally:
        os.close(file)


def where_it_met_them(output: str) -> str | None:
    """The last line of a failed command's output that says what walls say; a program may say so for other reasons."""
    lines = [line.strip() for line in output[-_TAIL:].splitlines() if _MET.search(line)]
    return lines[-1][:_LONGEST_LINE] if lines else None


def processes_below(pid: int, most: int = MOST_PROCESSES + 2) -> list[int]:
    """The processes that a process has started, and theirs; a few more than `most` if there are more."""
    found = [pid]
    for parent in found:
        if len(found) > most + 1:
            break
        with suppress(OSError):
            for task in Path(f"/proc/{parent}/task").iterdir():
                with suppress(OSError):
                    found += map(int, (task / "children").read_text().split())
    return found[1:]


def _hidden_by_landlock(room: Room) -> list[Path]:
    """Without the Jupyter configuration of a Python environment within the notebook's folder: no file could be made in
    the folder then."""
    own = {path / "etc/jupyter" for path in room.kept if path.is_relative_to(room.folder)}
    return [path for path in room.hidden if path not in own]


def why_not_there(found: WallsFound, room: Room, met: str) -> str:
    """What to add to a line that says what a command met, where it could not make a file since something hidden lies in
    that folder."""
    if found.kind != "Landlock" or not room.writable or "permission denied" not in met.lower():
        return ""
    around = {parent for path in _hidden_by_landlock(room) for parent in path.parents}
    folders = {path for path in around if path.is_relative_to(room.folder)}
    named = ("".join(groups) for groups in _NAMED.findall(met))
    made = [Path(os.path.normpath(room.folder / name)) for name in named]
    if not any(path.parent in folders and not os.path.lexists(path) for path in made):
        return ""
    closed = sorted(str(path.relative_to(room.folder)) for path in folders)
    listed = ", ".join(closed[:_MOST_NAMED]) + (", …" if len(closed) > _MOST_NAMED else "")
    return f" (nothing new can be made in {listed}: Landlock allows that only where nothing hidden lies)"


def _landlock_line(room: Room, command: Sequence[str]) -> list[str]:
    described = {
        "folder": str(room.folder),
        "scratch": tempfile.gettempdir() if room.writable else None,
        "hidden": list(map(str, _hidden_by_landlock(room))),
        "kept": list(map(str, room.kept)),
        "filter": seccomp.program("Landlock", writable=room.writable).hex(),
    }
    return [sys.executable, "-I", "-S", "-B", str(LAUNCHER), json.dumps(described), *command]


@functools.cache
def found_walls(*, bubblewrap: bool = True, landlock: bool = True) -> WallsFound:
    """The strongest walls that work here, of those that may be used. It starts a process: not for an event loop."""
    if not sys.platform.startswith("linux"):
        return WallsFound("none", "walls need Linux")
    reasons = []
    for found, wanted in ((WallsFound("bubblewrap"), bubblewrap), (WallsFound("Landlock"), landlock)):
        why = _why_not(found) if wanted else "not to be used"
        if why is None:
            return found
        reasons.append(f"{found.kind}: {why}")
    return WallsFound("none", "; ".join(reasons))


def _why_not(found: WallsFound) -> str | None:
    """Why these walls do not work; `None` where they do."""
    with tempfile.TemporaryDirectory(prefix="agent-kernel-walls-") as folder:
        room = make_room(Walls(), Path(folder))
        try:
            with put_inside(found, room, ["true"]) as (words, files):
                tried = subprocess.run(
                    words,
                    env=dict(room.environment),
                    pass_fds=files,
                    stdin=subprocess.DEVNULL,
                    capture_output=True,
                    text=True,
                    errors="replace",
                    timeout=_SECONDS,
                    check=False,
                )
        except FileNotFoundError:
            return "not installed"
        except (OSError, subprocess.TimeoutExpired) as error:
            return str(error)[:_MOST_WORDS]
    said = tried.stderr.strip().rpartition("\n")[2].removeprefix("bwrap: ")[:_MOST_WORDS]
    return None if tried.returncode == 0 else said or f"exit code {tried.returncode}"
