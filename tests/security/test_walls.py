"""A battery of escapes: what a shell command tries inside walls, at each level, with each kind of walls that is here.

Every case is also run outside, where it has to succeed: else it would show nothing.
"""

import ctypes
import json
import os
import shlex
import socket
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from babel.messages.catalog import Catalog
from babel.messages.mofile import write_mo

from agent_kernel.errors import ToolFailed
from agent_kernel.protocol.calls import Walls, WallsFound
from agent_kernel.protocol.vocabulary import WallKind, WallLevel
from agent_kernel.tools.builtin.shell import run_shell
from agent_kernel.tools.walls.inside import found_walls, is_inside, words_of
from agent_kernel.tools.walls.room import Room, make_room

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="walls need Linux")
SECRET = "ce9f-not-to-be-seen"
KINDS: tuple[WallKind, ...] = ("bubblewrap", "Landlock")


@dataclass(frozen=True)
class Case:
    command: str
    only_by: WallKind | None = None
    """The kind of walls that holds it, where the other does not: docs/walls.md says so."""
    escapes: bool = True
    """Whether it succeeds outside, on any machine and with anybody's rights."""


def python(code: str) -> str:
    unsaid = code.replace("'ESCAPED'", "'ESC' 'APED'")  # a traceback may show the code
    return f"{shlex.quote(sys.executable)} -I -c {shlex.quote(unsaid)}"


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
READS = {
    "a key": Case("cat {home}/.ssh/id_rsa"),
    "the names of keys": Case("ls {home}/.ssh | sed s/id_rsa/ESCAPED/"),
    "a file with passwords": Case("cat {home}/.netrc"),
    "the server's token": Case("cat {jupyter}/runtime/jpserver-1.json"),
    "the log": Case("cat {log}"),
    "a way around": Case("cat {folder}/../home/./.ssh/id_rsa"),
    "a link in the folder": Case("cat {folder}/link"),
    "a folder behind a link": Case("cat {folder}/folder/id_rsa"),
    "a link that it makes": Case("ln -s {home}/.ssh {folder}/made; cat {folder}/made/id_rsa"),
    "a hard link": Case("ln {home}/.ssh/id_rsa {folder}/hard && cat {folder}/hard"),
    "a copy": Case("cp -r {home}/.ssh {folder}/copy; cat {folder}/copy/id_rsa"),
    "another name for it": Case("mv {home}/.ssh {folder}/moved; cat {folder}/moved/id_rsa"),
    "an open folder": Case(python("import os; os.chdir({home!r}); print(open('.ssh/id_rsa').read())")),
    "another process's root": Case("cat /proc/{victim}/root{home}/.ssh/id_rsa"),
    "another process's folder": Case("cat /proc/{victim}/cwd/id_rsa"),
    "another process's open file": Case("cat /proc/{victim}/fd/0"),
    "another process's environment": Case("cat /proc/{victim}/environ"),
    "another's command line": Case("cat /proc/[0-9]*/cmdline | tr '\\0' ' ' | grep 'marked-[v]ictim' && echo ESCAPED"),
    "another process's open file, taken over": Case(python(ITS_FILE), escapes=False),
    "memory that others share": Case(python(SHARED)),
    "the first process's root": Case("cat /proc/1/root{home}/.ssh/id_rsa", escapes=False),
    "a mount of its own": Case("unshare -Urm sh -c 'umount {home}/.ssh; cat {home}/.ssh/id_rsa'", escapes=False),
    "walls of its own": Case("bwrap --bind / / cat {home}/.ssh/id_rsa", escapes=False),
    "the kernel's keyring": Case(python(KEYRING), escapes=False),
    "its environment": Case("env"),
    "its shell's environment": Case("cat /proc/$$/environ; echo $AWS_SECRET_ACCESS_KEY"),
}  # fmt: skip
WRITES = {
    "a file outside": Case("echo x > {outside}/file"),
    "a new file outside": Case("touch {outside}/new"),
    "a folder outside": Case("mkdir {outside}/new"),
    "a removal outside": Case("rm {outside}/file"),
    "a move outside": Case("mv {outside}/file {outside}/moved"),
    "a move into the folder": Case("mv {outside}/file {folder}/file"),
    "a file that it swaps with one outside": Case(python(EXCHANGE)),
    "a link outside": Case("ln -s {outside} {folder}/out; echo x > {folder}/out/new"),
    "a hard link to outside": Case("ln {outside}/file {folder}/hard && echo x >> {folder}/hard"),
    "a shorter file outside": Case("truncate -s 0 {outside}/file"),
    "another mode outside": Case("chmod 600 {outside}/file", only_by="bubblewrap"),
    "another time outside": Case("touch -d 2001-01-01 {outside}/file", only_by="bubblewrap"),
    "a file through another process": Case("echo x > /proc/{victim}/root{outside}/file"),
    "settings at home": Case("echo x > {home}/.bashrc"),
    "the system's settings": Case(f"(: >> /proc/sys/kernel/core_pattern) {OPENED}", escapes=False),
    "the system's keys": Case(f"(: >> /proc/sysrq-trigger) {OPENED}", escapes=False),
    "a device": Case(f"mknod {{folder}}/disk b 8 0 && (: < {{folder}}/disk) {OPENED}", escapes=False),
    "a disk that it may write again": Case("mount -o remount,rw,bind /; echo x > {outside}/file"),
    "shared memory": Case("echo x > /dev/shm/{name}"),
    "the temporary folder": Case("echo x > /tmp/{name}"),
}
PROCESSES = {
    "a look at a process": Case("kill -0 {victim} && echo ESCAPED"),
    "a signal": Case("kill -9 {victim} && echo ESCAPED"),
    "a signal to all": Case("kill -9 -1; :", escapes=False),
    "a debugger": Case(python(PTRACE), escapes=False),
    "another's memory": Case(f"(: >> /proc/{{victim}}/mem) {OPENED}", escapes=False),
    "a queue of others": Case(python(QUEUE)),
    "another's limits": Case("prlimit --pid {victim} --nofile=10:10 && echo ESCAPED"),
    "a connection": Case("exec 3<>/dev/tcp/127.0.0.1/{tcp} && echo ESCAPED"),
    "a packet": Case("echo x > /dev/udp/127.0.0.1/{udp}", only_by="bubblewrap"),
    "cloud metadata": Case("timeout 5 bash -c 'exec 3<>/dev/tcp/169.254.169.254/80' && echo ESCAPED", escapes=False),
    "an abstract socket": Case(python(CONNECT.replace("{address!r}", "chr(0) + {name!r}"))),
    "a socket in the file system": Case(python(CONNECT.replace("{address!r}", "{socket!r}"))),
    "a connection over several ways": Case(python(INET.format("1, 262", "connect((HERE, {tcp}))")), escapes=False),
    "a connection with its first bytes": Case(python(INET.format("1", "sendto(b'x', 1 << 29, (HERE, {tcp}))"))),
    "a machine's host": Case(f"{python('import socket; socket.socket(40, 1)')} {OPENED}", escapes=False),
}
CASES = READS | WRITES | PROCESSES


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
    if case.only_by not in (None, kind):
        pytest.skip(f"{kind} does not hold this")
    assert escaped(world, case.command, walls(kind), level) is None


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.escapes])
def test_every_case_escapes_where_there_are_no_walls(world: World, name: str) -> None:
    assert escaped(world, CASES[name].command, WallsFound("none"), "none") is not None


@pytest.mark.parametrize("kind", KINDS)
def test_work_in_the_folder_goes_on(world: World, kind: WallKind) -> None:
    work = "mkdir -p a/b && echo 1 > a/b/c && mv a/b/c d && cat d && ln d e && T=$(mktemp) && echo 2 > $T && cat $T"
    assert world.run(f"{work} && {python('print(3)')} && cat <(echo 4) > /dev/null", walls(kind), "workspace") == (
        "1\n2\n3\nExit code: 0"
    )
    assert (world.folder / "d").read_text() == "1\n"
    looked = world.run(
        f"head -1 /etc/passwd > /dev/null && cat d; {python('print(3)')}; echo x > new", walls(kind), "read-only"
    )
    assert looked.startswith("1\n3\n")
    assert "stopped by the walls: " in looked
    assert not (world.folder / "new").exists()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("command", "timeout", "said"),
    [
        ("for i in $(seq 150); do setsid sleep 3600 & done; echo done", 120, "done\nExit code: 0"),
        ("trap '' TERM; (trap '' TERM HUP; setsid sleep 3600) & while :; do sleep 0.1; done", 2, "Stopped after 2 s"),
        # It holds up what runs beside it, so not among the other tests.
        pytest.param(
            "bomb() { bomb | bomb & wait; }; bomb",
            120,
            "stopped by the walls: more than 512 processes.",
            marks=pytest.mark.soak,
        ),
        ("nohup sleep 3600 & disown; kill -9 $$", 120, "Exit code: 137"),
    ],
    ids=["150 daemons", "a command that ignores SIGTERM", "a fork bomb", "a daemon of a killed command"],
)
def test_nothing_is_left_when_a_command_has_ended(
    world: World, kind: WallKind, command: str, timeout: float, said: str
) -> None:
    assert said in world.run(command, walls(kind), "workspace", timeout)
    until_nothing_is_left(world)


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_left_when_a_command_is_interrupted(world: World, kind: WallKind) -> None:
    def interrupt(_: str) -> None:
        raise KeyboardInterrupt

    command = "setsid sleep 3600 & echo begun; sleep 3600"
    with pytest.raises(KeyboardInterrupt):
        run_shell(world.folder, command, emit=interrupt, found=walls(kind), room=world.room("workspace"))
    until_nothing_is_left(world)


KERNEL = """
import pathlib, sys
from agent_kernel.protocol.calls import Walls, WallsFound
from agent_kernel.tools.builtin.shell import run_shell
from agent_kernel.tools.walls.room import make_room
folder = pathlib.Path(sys.argv[2])
emit = lambda text: print(text, flush=True)
run_shell(folder, "setsid sleep 3600 & echo begun; sleep 3600", emit=emit, found=WallsFound(sys.argv[1]),
          room=make_room(Walls(), folder))
"""


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_left_when_the_kernel_is_killed(world: World, kind: WallKind) -> None:
    walls(kind)
    kernel = subprocess.Popen([sys.executable, "-c", KERNEL, kind, str(world.folder)], stdout=subprocess.PIPE)
    with kernel:
        assert kernel.stdout is not None
        assert kernel.stdout.readline() == b"begun\n"
        kernel.kill()
    until_nothing_is_left(world)


def until_nothing_is_left(world: World) -> None:
    deadline = time.monotonic() + 60
    while left := [process for process in Path("/proc").iterdir() if _is_in(process, world.folder)]:
        assert time.monotonic() < deadline, left
        time.sleep(0.01)


def _is_in(process: Path, folder: Path) -> bool:
    try:
        return (process / "cwd").readlink() == folder
    except OSError:
        return False  # it has ended, or is no process of ours


@pytest.mark.soak
@pytest.mark.parametrize("kind", KINDS)
def test_ten_gigabytes_of_output_are_not_kept(world: World, kind: WallKind) -> None:
    said = world.run("head -c 10G /dev/zero | tr '\\0' x", walls(kind), "workspace", timeout=3)
    assert len(said) < 60_000_000


@pytest.mark.parametrize("kind", KINDS)
def test_the_ends_of_commands_are_told_apart(world: World, kind: WallKind) -> None:
    found = walls(kind)
    assert world.run("exit 3", found, "workspace") == "Exit code: 3"
    met = world.run("cat {home}/.ssh/id_rsa", found, "workspace")
    assert met.splitlines()[-2:] == [f"stopped by the walls: {met.splitlines()[0]}", "Exit code: 1"]


def test_a_folder_that_holds_the_log_can_have_new_files_only_in_its_folders_under_landlock(world: World) -> None:
    (world.folder / "logs").mkdir()
    (world.folder / "logs" / "log.sqlite").write_text(SECRET)
    (world.folder / "results").mkdir()
    (world.folder / "notes").write_text("old")
    room = make_room(Walls("workspace", (str(world.folder / "logs" / "log.sqlite"),)), world.folder)

    def said(command: str) -> str:
        try:
            return run_shell(world.folder, command, emit=lambda _: None, found=walls("Landlock"), room=room)
        except ToolFailed as failure:
            return str(failure)

    why = "(nothing new can be made in ., logs: Landlock allows that only where nothing hidden lies)"
    assert said("touch new").splitlines()[-2].endswith(f"touch 'new': Permission denied {why}")
    assert why in said("echo x > logs/new")
    assert why in said(f'{sys.executable} -c \'open("new", "w")\'')
    for command in ("cat logs/log.sqlite", "touch ../new", "touch /etc/new"):
        assert "stopped by the walls" in said(command)
        assert why not in said(command), command
    assert said("echo x > results/new && echo x >> notes") == "Exit code: 0"
    assert said("ls").endswith("logs\nnotes\nresults\nExit code: 0")
    moved = "cat logs/log.sqlite; mv logs/log.sqlite results; rm logs/log.sqlite; mv logs results; ln logs/* results"
    assert SECRET not in said(f"{moved}; cat results/* results/*/*")
    assert (world.folder / "logs" / "log.sqlite").read_text() == SECRET


TRANSLATED = """
import gettext, sys
try:
    open({home!r} + "/.ssh/id_rsa")
    sys.exit(gettext.translation("tool", ".").gettext("Found"))
except PermissionError:
    sys.exit(gettext.translation("tool", ".", fallback=True).gettext("Permission denied"))
"""


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("variable", ["LANG", "LC_MESSAGES", "LC_ALL"])
def test_a_failure_at_a_wall_is_told_on_a_machine_that_speaks_german(
    world: World, kind: WallKind, variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a program with a catalogue of its messages, as the system's own have one."""
    catalogue = Catalog("de")
    catalogue.add("Permission denied", "Keine Berechtigung")
    catalogue.add("Found", "Gefunden")
    (world.folder / "de" / "LC_MESSAGES").mkdir(parents=True)
    with (world.folder / "de" / "LC_MESSAGES" / "tool.mo").open("wb") as file:
        write_mo(file, catalogue)
    monkeypatch.setenv(variable, "de_DE.UTF-8")
    world.environ[variable] = "de_DE.UTF-8"
    assert world.run(python(TRANSLATED), WallsFound("none"), "none").endswith("Gefunden\nExit code: 1")
    assert world.run(python(TRANSLATED), walls(kind), "workspace") == (
        "Permission denied\nstopped by the walls: Permission denied\nExit code: 1"
    )


HIDDEN = (
    ".ssh",
    ".aws",
    ".gnupg",
    ".kube",
    ".docker",
    ".azure",
    ".config/gcloud",
    ".netrc",
    ".pgpass",
    ".pypirc",
    ".git-credentials",
    ".config/git/credentials",
    ".local/share/keyrings",
    ".local/share/kwalletd",
    ".password-store",
    ".mozilla",
    ".config/chromium",
    ".config/google-chrome",
    ".config/microsoft-edge",
)


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


def test_messages_alone_are_in_english_inside_walls(world: World) -> None:
    def known(environ: dict[str, str]) -> dict[str, str]:
        room = make_room(Walls(), world.folder, environ=environ)
        return {name: value for name, value in room.environment.items() if name.startswith(("LANG", "LC_"))}

    german = "de_DE.UTF-8"
    assert known({}) == {"LC_MESSAGES": "C"}
    assert known({"LANG": german, "LC_TIME": "fr_FR"}) == {"LANG": german, "LC_TIME": "fr_FR", "LC_MESSAGES": "C"}
    # It goes before all the others, so that what they say holds no more.
    assert known({"LANG": "C", "LC_TIME": "fr_FR", "LC_ALL": german}) == {"LANG": german, "LC_MESSAGES": "C"}


def test_this_pythons_environment_in_the_folder_can_be_read_and_not_written(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a command could change what the kernel runs. Landlock can't take away a part of what it allows."""
    (world.folder / ".venv").mkdir()
    (world.folder / ".venv" / "module").write_text("as it was")
    monkeypatch.setattr("agent_kernel.tools.walls.room._KEPT", (world.folder / ".venv",))
    found = walls("bubblewrap")
    said = world.run("cat .venv/module; echo x > .venv/module; mv .venv new; echo 1 > here", found, "workspace")
    assert said.startswith("as it was")
    assert (world.folder / ".venv" / "module").read_text() == "as it was"


def test_a_home_folder_as_the_notebooks_folder_hides_its_keys_all_the_same(world: World) -> None:
    world = World(world.top / "home", world.victim, world.sockets, environ=world.environ)
    (world.folder).symlink_to(".")  # the notebook's folder is the home folder itself, by a link
    for kind in KINDS:
        if (found := found_walls(bubblewrap=kind == "bubblewrap", landlock=kind == "Landlock")).kind == kind:
            assert SECRET not in world.run("cat .ssh/id_rsa .netrc work/.ssh/id_rsa", found, "workspace")
            assert "Exit code: 0" in world.run("mkdir -p work/a; ls / > /dev/null; true", found, "workspace")


def test_it_is_said_why_there_are_no_walls(monkeypatch: pytest.MonkeyPatch) -> None:
    neither = found_walls(bubblewrap=False, landlock=False)
    assert words_of(neither, "workspace") == "none (bubblewrap: not to be used; Landlock: not to be used)"
    assert not is_inside(words_of(neither, "workspace"))
    monkeypatch.setattr("agent_kernel.tools.walls.bubblewrap._PLACES", "/nowhere")
    found_walls.cache_clear()
    assert found_walls(landlock=False).why.startswith("bubblewrap: not installed")
    found_walls.cache_clear()
