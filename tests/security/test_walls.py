"""A battery of escapes: what a shell command tries inside walls, at each level, with each kind of walls that is here.

Every case is also run outside, where it has to succeed: else it would show nothing.
"""

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from agent_kernel.protocol.calls import WallsFound
from agent_kernel.protocol.vocabulary import WallKind, WallLevel
from tests.security.walls import *  # noqa: F403 -- its fixture, which pytest finds by its name
from tests.security.walls import KINDS, SECRET, World, python, walls

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="walls need Linux")


@dataclass(frozen=True)
class Case:
    command: str
    open_at: tuple[WallLevel, ...] = ()
    """The levels at which Landlock does not hold it: docs/walls.md says so."""
    escapes: bool = True
    """Whether it succeeds outside, on any machine and with anybody's rights."""


OPENED = "2>/dev/null && echo ESCAPED"
PTRACE = (
    "import ctypes; libc = ctypes.CDLL(None); pid = {victim}; "
    "print('ESCAPED' if libc.ptrace(16, pid, 0, 0) == 0 else 'held')"
)
CONNECT = "import socket; s = socket.socket(socket.AF_UNIX); s.connect({address!r}); print('ESCAPED')"
KEYRING = (
    "import ctypes, platform; number = {'x86_64': 250}.get(platform.machine(), 219); "
    "print('ESCAPED' if ctypes.CDLL(None).syscall(number, 0, -4, 1) >= 0 else 'held')"
)
INET = "import socket; HERE = '127.0.0.1'; socket.socket(2, {}).{}; print('ESCAPED')"
SHARED = (
    "import ctypes; libc = ctypes.CDLL(None); libc.shmat.restype = ctypes.c_void_p; "
    "found = libc.shmat({memory}, 0, 0); "
    "print(ctypes.string_at(found) if found != ctypes.c_void_p(-1).value else 'held')"
)
QUEUE = "import ctypes; print('ESCAPED' if ctypes.CDLL(None).msgctl({queue}, 0, None) == 0 else 'held')"
ITS_FILE = (
    "import ctypes, os; libc = ctypes.CDLL(None); process = libc.syscall(434, {victim}, 0); "
    "print(os.pread(libc.syscall(438, process, 0, 0), 100, 0))"
)
EXCHANGE = (
    "import ctypes; open('new', 'w').close(); "
    "ctypes.CDLL(None).renameat2(-100, b'new', -100, {outside!r}.encode() + b'/file', 2)"
)
OWNER = "import os; os.chown({outside!r} + '/file', -1, -1); print('ESCAPED')"
ATTRIBUTE = "import os; os.setxattr({outside!r} + '/file', 'user.test', b'x'); print('ESCAPED')"
FLAG = (
    "import fcntl, os, struct; file = os.open({outside!r} + '/file', 0); "
    "flags = fcntl.ioctl(file, 0x80086601, bytes(8)); fcntl.ioctl(file, 0x40086602, flags); print('ESCAPED')"
)
READS = {
    "a key": Case("cat {home}/.ssh/id_rsa"),
    "a file with passwords": Case("cat {home}/.netrc"),
    "the server's token": Case("cat {jupyter}/runtime/jpserver-1.json"),
    "the log": Case("cat {log}"),
    "a link in the folder": Case("cat {folder}/link"),
    "a link that it makes": Case("ln -s {home}/.ssh {folder}/made; cat {folder}/made/id_rsa"),
    "a hard link": Case("ln {home}/.ssh/id_rsa {folder}/hard && cat {folder}/hard"),
    "another name for it": Case("mv {home}/.ssh {folder}/moved; cat {folder}/moved/id_rsa"),
    "another process's root": Case("cat /proc/{victim}/root{home}/.ssh/id_rsa"),
    "another process's open file": Case("cat /proc/{victim}/fd/0"),
    "another process's environment": Case("cat /proc/{victim}/environ"),
    "another's command line": Case("cat /proc/[0-9]*/cmdline | tr '\\0' ' ' | grep 'marked-[v]ictim' && echo ESCAPED"),
    "another process's open file, taken over": Case(python(ITS_FILE), escapes=False),
    "memory that others share": Case(python(SHARED)),
    "a mount of its own": Case("unshare -Urm sh -c 'umount {home}/.ssh; cat {home}/.ssh/id_rsa'", escapes=False),
    "the kernel's keyring": Case(python(KEYRING), escapes=False),
    "its environment": Case("env"),
}  # fmt: skip
WRITES = {
    "a file outside": Case("echo x > {outside}/file"),
    "a new file outside": Case("touch {outside}/new"),
    "a move into the folder": Case("mv {outside}/file {folder}/file"),
    "a file that it swaps with one outside": Case(python(EXCHANGE)),
    "a link outside": Case("ln -s {outside} {folder}/out; echo x > {folder}/out/new"),
    "another mode outside": Case("chmod 600 {outside}/file", open_at=("workspace",)),
    "another mode of an open file": Case(
        python("import os; os.fchmod(os.open({outside!r}, 0), 0o700)"), ("workspace",)
    ),
    "another group outside": Case(python(OWNER), ("workspace",), escapes=False),
    "an attribute outside": Case(python(ATTRIBUTE)),
    "a flag outside": Case(python(FLAG), escapes=False),
    "a file through another process": Case("echo x > /proc/{victim}/root{outside}/file"),
    "the system's settings": Case(f"(: >> /proc/sys/kernel/core_pattern) {OPENED}", escapes=False),
    "a device": Case(f"mknod {{folder}}/disk b 8 0 && (: < {{folder}}/disk) {OPENED}", escapes=False),
    "a disk that it may write again": Case("mount -o remount,rw,bind /; echo x > {outside}/file"),
    "shared memory": Case("echo x > /dev/shm/{name}"),
    "the temporary folder": Case("echo x > /tmp/{name}"),
}
PROCESSES = {
    "a signal": Case("kill -9 {victim} && echo ESCAPED"),
    "a signal to all": Case("kill -9 -1; :", escapes=False),
    "a debugger": Case(python(PTRACE), escapes=False),
    "a queue of others": Case(python(QUEUE)),
    "another's limits": Case("prlimit --pid {victim} --nofile=10:10 && echo ESCAPED"),
    "a connection": Case("exec 3<>/dev/tcp/127.0.0.1/{tcp} && echo ESCAPED"),
    "a packet": Case("echo x > /dev/udp/127.0.0.1/{udp}", open_at=("workspace", "read-only")),
    "an abstract socket": Case(python(CONNECT.replace("{address!r}", "chr(0) + {name!r}"))),
    "a socket in the file system": Case(python(CONNECT.replace("{address!r}", "{socket!r}"))),
    "a connection over several ways": Case(python(INET.format("1, 262", "connect((HERE, {tcp}))")), escapes=False),
    "a connection with its first bytes": Case(python(INET.format("1", "sendto(b'x', 1 << 29, (HERE, {tcp}))"))),
    "a machine's host": Case(f"{python('import socket; socket.socket(40, 1)')} {OPENED}", escapes=False),
}
CASES = READS | WRITES | PROCESSES


def escaped(world: World, command: str, found: WallsFound, level: WallLevel) -> str | None:
    """What a command has got out of the walls; `None` where they held."""
    before = world.state()
    said = world.run(command, found, level)
    world.victim.poll()
    if SECRET in said or "ESCAPED" in said or SECRET in "".join(_texts(world.folder)):
        return said
    return None if world.state() == before else f"changed: {said}"


def _texts(folder: Path) -> Iterator[str]:
    """What it has brought into the folder, but for what a link there leads to."""
    for path in folder.rglob("*"):
        if path.is_file() and path.resolve().is_relative_to(folder):
            yield path.read_text(errors="replace")


@pytest.mark.parametrize("level", ["workspace", "read-only"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", CASES)
def test_nothing_escapes(world: World, name: str, kind: WallKind, level: WallLevel) -> None:
    case = CASES[name]
    if kind == "Landlock" and level in case.open_at:
        pytest.skip("Landlock does not hold this")
    assert escaped(world, case.command, walls(kind), level) is None


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.escapes])
def test_every_case_escapes_where_there_are_no_walls(world: World, name: str) -> None:
    assert escaped(world, CASES[name].command, WallsFound("none"), "none") is not None


HIDDEN = (".ssh", ".aws", ".kube", ".config/gcloud", ".netrc", ".local/share/keyrings", ".config/google-chrome")


@pytest.mark.parametrize("kind", KINDS)
def test_no_key_that_a_home_folder_has_is_read(world: World, kind: WallKind) -> None:
    home = world.top / "home"
    for name in HIDDEN:
        if name in (".ssh", ".netrc"):
            continue  # as for every test
        (home / name).mkdir(parents=True)
        (home / name / "key").write_text(SECRET)
    (home / "notes").write_text("to be seen")
    named = (".ssh/id_rsa", ".netrc", *(f"{name}/key" for name in HIDDEN if name not in (".ssh", ".netrc")), "notes")
    read_all = f"cat {' '.join(f'{{home}}/{one}' for one in named)}"
    assert world.run(read_all, WallsFound("none"), "none").count(SECRET) == len(HIDDEN)
    said = world.run(read_all, walls(kind), "workspace")
    assert (said.count(SECRET), "to be seen" in said) == (0, True)
