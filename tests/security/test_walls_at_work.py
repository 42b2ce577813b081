"""Commands inside walls: their work goes on, all that they started ends with them, and what stopped them is said."""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from agent_kernel.errors import ToolFailed
from agent_kernel.protocol.calls import Walls
from agent_kernel.protocol.vocabulary import WallKind
from agent_kernel.tools.builtin.shell import run_shell
from agent_kernel.tools.walls.room import make_room
from tests.security.walls import *  # noqa: F403 -- its fixture, which pytest finds by its name
from tests.security.walls import KINDS, SECRET, World, python, walls

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="walls need Linux")


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
    "command",
    [
        "cp -a marked copied && mv copied moved && sed -i s/1/2/ moved && cat moved",
        "printf 'all: ; @chmod +x marked; touch -d 2001-01-01 marked' > Makefile && make && test -x marked",
        "git init -q && git add marked && git -c user.name=a -c user.email=a@b.c commit -qm Go && git clone -q . b",
        python("import shutil; shutil.copy2('marked', 'copied')"),
    ],
    ids=lambda command: command.partition(" ")[0].rpartition("/")[2],
)
def test_tools_that_set_modes_times_and_attributes_go_on(world: World, kind: WallKind, command: str) -> None:
    (world.folder / "marked").write_text("1\n")
    os.setxattr(world.folder / "marked", "user.test", b"x")
    if shutil.which(command.partition(" ")[0]) is None:
        pytest.skip("it is not installed")
    assert world.run(command, walls(kind), "workspace").endswith("Exit code: 0")


BOMB = "bomb() { bomb | bomb & wait; }; bomb"
"""It holds up what runs beside it, so not among the other tests."""


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("command", "timeout", "said"),
    [
        ("for i in $(seq 150); do setsid sleep 3600 & done; echo done", 120, "done\nExit code: 0"),
        ("trap '' TERM; (trap '' TERM HUP; setsid sleep 3600) & while :; do sleep 0.1; done", 2, "Stopped after 2 s"),
        pytest.param(BOMB, 120, "stopped by the walls: more than 512 processes.", marks=pytest.mark.soak),
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
