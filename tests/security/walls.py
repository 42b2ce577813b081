"""What a shell command may try to escape to, and the walls that this machine has."""

import ctypes
import json
import os
import shlex
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from agent_kernel.errors import ToolFailed
from agent_kernel.protocol.calls import Walls, WallsFound
from agent_kernel.protocol.vocabulary import WallKind, WallLevel
from agent_kernel.tools.builtin.shell import run_shell
from agent_kernel.tools.walls.inside import found_walls
from agent_kernel.tools.walls.room import Room, make_room

SECRET = "ce9f-not-to-be-seen"
KINDS: tuple[WallKind, ...] = ("bubblewrap", "Landlock")


def python(code: str) -> str:
    unsaid = code.replace("'ESCAPED'", "'ESC' 'APED'")  # a traceback may show the code
    return f"{shlex.quote(sys.executable)} -I -c {shlex.quote(unsaid)}"


def walls(kind: WallKind) -> WallsFound:
    """The walls of a kind, if this machine has them."""
    found = found_walls(bubblewrap=kind == "bubblewrap", landlock=kind == "Landlock")
    if found.kind != kind:
        pytest.skip(found.why)
    return found


@dataclass
class World:
    """What there is to escape to. In no temporary folder: a command has one of its own."""

    top: Path
    victim: subprocess.Popen[bytes]
    sockets: list[socket.socket]
    shared: tuple[int, int] = (0, 0)
    """The ids of shared memory and of a queue, System V's."""
    environ: dict[str, str] = field(default_factory=dict)

    @property
    def folder(self) -> Path:
        return self.top / "work"

    def names(self) -> dict[str, Any]:
        places = {name: str(self.top / name) for name in ("home", "outside", "jupyter", "log", "socket")}
        tcp, udp = (one.getsockname()[1] for one in self.sockets[:2])
        return places | {
            "folder": str(self.folder), "victim": self.victim.pid, "name": self.top.name, "tcp": tcp, "udp": udp,
            "memory": self.shared[0], "queue": self.shared[1],
        }  # fmt: skip

    def room(self, level: WallLevel) -> Room | None:
        walls = Walls(level, (str(self.top / "jupyter"), str(self.top / "log")))
        return make_room(walls, self.folder, environ=self.environ) if level != "none" else None

    def run(self, command: str, found: WallsFound, level: WallLevel, timeout: float = 120) -> str:
        for name, value in self.names().items():
            command = command.replace(f"{{{name}!r}}", json.dumps(value)).replace(f"{{{name}}}", str(value))
        try:
            return run_shell(self.folder, command, timeout, emit=lambda _: None, found=found, room=self.room(level))
        except ToolFailed as failure:
            return str(failure)

    def state(self) -> list[Any]:
        """All that a command could have changed outside of its folder, and whether anybody has heard of it."""
        seen: list[Any] = [self.victim.poll()]
        for path in sorted(
            (*self.top.rglob("*"), *Path("/tmp").glob(self.top.name), *Path("/dev/shm").glob(self.top.name))
        ):
            if path.is_relative_to(self.folder):
                continue
            found = path.lstat()
            seen.append(
                (str(path), found.st_mode, found.st_mtime if stat.S_ISREG(found.st_mode) else None, found.st_size)
            )
        return [*seen, *map(_has_heard, self.sockets)]


def _has_heard(one: socket.socket) -> bool:
    try:
        if one.type == socket.SOCK_DGRAM:
            one.recv(10)
        else:
            one.accept()[0].close()
    except BlockingIOError:
        return False
    return True


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    with tempfile.TemporaryDirectory(prefix="agent-kernel-test-", dir="/var/tmp") as made:
        top = Path(made)
        for name in ("home/.ssh", "outside", "jupyter/runtime", "work"):
            (top / name).mkdir(parents=True)
        for name in ("home/.ssh/id_rsa", "home/.netrc", "jupyter/runtime/jpserver-1.json", "log"):
            (top / name).write_text(SECRET)
        (top / "outside" / "file").write_text("as it was")
        (top / "work" / "link").symlink_to(top / "home/.ssh/id_rsa")
        (top / "work" / "folder").symlink_to(top / "home/.ssh")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
        sockets = [
            _socket(socket.AF_INET, ("127.0.0.1", 0)),
            _socket(socket.AF_INET, ("127.0.0.1", 0), socket.SOCK_DGRAM),
            _socket(socket.AF_UNIX, f"\0{top.name}"),
            _socket(socket.AF_UNIX, str(top / "socket")),
        ]
        sleeping = [sys.executable, "-I", "-c", "import time; time.sleep(3600)", "marked-victim"]
        with (top / "home/.ssh/id_rsa").open() as key:
            victim = subprocess.Popen(sleeping, cwd=top / "home/.ssh", stdin=key)
        libc = ctypes.CDLL(None)
        memory, queue = _shared_memory(libc), libc.msgget(0, 0o600)
        yield World(top, victim, sockets, (memory, queue), {**os.environ, "HOME": str(top / "home")})
        libc.shmctl(memory, 0, None)
        libc.msgctl(queue, 0, None)
        victim.kill()
        victim.wait()
        for one in sockets:
            one.close()
        for shared in (Path("/tmp", top.name), Path("/dev/shm", top.name)):
            shared.unlink(missing_ok=True)


def _shared_memory(libc: ctypes.CDLL) -> int:
    libc.shmat.restype = ctypes.c_void_p
    made: int = libc.shmget(0, 4096, 0o1600)
    place = libc.shmat(made, None, 0)
    ctypes.memmove(place, SECRET.encode(), len(SECRET))
    libc.shmdt(ctypes.c_void_p(place))
    return made


def _socket(family: int, address: Any, kind: int = socket.SOCK_STREAM) -> socket.socket:
    made = socket.socket(family, kind)
    made.bind(address)
    if kind == socket.SOCK_STREAM:
        made.listen()
    made.setblocking(False)
    return made
