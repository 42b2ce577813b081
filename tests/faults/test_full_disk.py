"""A log on a real disk of two megabytes: full, or mounted read-only. Skipped where nothing may be mounted."""

import contextlib
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_kernel.errors import LogUnavailable
from agent_kernel.protocol.commands import Decision
from agent_kernel.runtime.runs import lifecycle
from agent_kernel.runtime.runtime import Runtime
from agent_kernel.testing import ScriptedModel, call, say
from tests.core.runtime.runtime_fixtures import OneModel, stage
from tests.faults import checks


def mount(*arguments: str) -> bool:
    """Whether the system's `mount` did it."""
    program = shutil.which("mount")
    return (
        program is not None and subprocess.run([program, *arguments], capture_output=True, check=False).returncode == 0
    )


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "disk"
    place.mkdir()
    if not mount("-t", "tmpfs", "-o", "size=2m", "tmpfs", str(place)):
        pytest.skip("nothing may be mounted here")
    yield place
    subprocess.run(["umount", str(place)], check=True)


def fill(disk: Path) -> Path:
    """A file that takes all the room that is left."""
    filler = disk / "filler"
    with filler.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(b"x" * 4096)
    assert shutil.disk_usage(disk).free == 0
    return filler


async def test_on_a_full_disk_nothing_is_decided_and_with_room_again_all_goes_on(
    disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lifecycle, "_FIRST_PAUSE", 0.02)
    with ScriptedModel([call("run_python", code="1"), say("Done."), say("Behind.")]) as model:
        one = await stage(model, path=disk / "log.sqlite")
        handle = await one.start()
        behind = await one.start("behind")
        [request] = await one.requests()
        filler = fill(disk)
        for _ in range(3):
            with pytest.raises(LogUnavailable, match="full"):
                await one.conversation.route_decision(request.approval_id, Decision(approved=True))
        with pytest.raises(LogUnavailable):
            await one.conversation.cancel_run(behind.run_id)
        assert one.executor.ran == []
        filler.unlink()
        await one.conversation.route_decision(request.approval_id, Decision(approved=True))
        assert [(await run.wait()).run.status for run in (handle, behind)] == ["complete"] * 2
        assert len(one.executor.ran) == 1
        conversation = one.conversation.conversation_id
        await one.close()
    frames = checks.read_frames(disk / "log.sqlite", conversation)
    assert checks.gaps([frame["seq"] for frame in frames], 0) == []


async def test_a_log_on_a_disk_that_is_mounted_read_only_says_so(disk: Path) -> None:
    source = OneModel(ScriptedModel([]))
    await (await Runtime.open(disk / "log.sqlite", source)).aclose()
    assert mount("-o", "remount,ro", str(disk))
    with pytest.raises(LogUnavailable, match="can't be opened"):
        await Runtime.open(disk / "log.sqlite", source)
    assert mount("-o", "remount,rw", str(disk))
    await (await Runtime.open(disk / "log.sqlite", source)).aclose()
