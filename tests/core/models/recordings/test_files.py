"""Recordings as files: readable in a diff, written by several at once, and faults with file, line and remedy."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agent_kernel.approvals.scripted import ScriptedDecision
from agent_kernel.errors import ConfigurationError, RecordingNotWritten
from agent_kernel.models.recordings import format as recordings
from agent_kernel.models.recordings.format import load
from agent_kernel.models.recordings.names import TurnsToRecord
from agent_kernel.models.recordings.player import RecordedModel
from agent_kernel.models.recordings.recorder import RecordingModel, record
from agent_kernel.models.resolver import ModelResolver
from agent_kernel.testing import ScriptedModel, call, say
from tests.core.models.model_fixtures import turn_of
from tests.core.models.recordings.questions import called, recorded, request, user

ROOT = Path(__file__).parents[4]
FIRST, SECOND = request(user("Sum n")), request(user("Sum n"), *called("df.n.sum()", "4"))
OTHER = request(user("Thank you"), conversation="two")
"""What is asked in `whole`."""


TURNS = (
    (FIRST, call("run_python", code="df.n.sum()")),
    (SECOND, say("It is 4.")),
    (OTHER, say("Gladly.")),
)


@pytest.fixture
async def whole(tmp_path: Path) -> Path:
    return await recorded(tmp_path / "a.jsonl", *TURNS)


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def answers(path: Path) -> list[str]:
    return [row["answer"].get("content", "") for row in rows(path) if row["kind"] == "turn"]


def content(path: Path) -> bytes:
    return path.read_bytes()


def fault(path: Path) -> str:
    with pytest.raises(ConfigurationError) as raised:
        load(path)
    return str(raised.value)


async def test_recording_the_same_again_changes_no_byte(whole: Path) -> None:
    before = content(whole)
    await recorded(whole, *TURNS)
    assert content(whole) == before


async def test_one_turn_is_recorded_anew_and_the_rest_is_kept(whole: Path) -> None:
    with ScriptedModel([say("It is four.")]) as model:
        second = RecordingModel(whole, model, turns=TurnsToRecord(2, 2))
        for asked in (FIRST, SECOND, OTHER):
            await turn_of(second, asked)
    assert answers(whole) == ["", "It is four.", "Gladly."]


async def test_decisions_are_lines_and_are_replaced_with_their_run(whole: Path) -> None:
    model = record(whole, ScriptedModel([call("run_python", code="1"), call("run_python", code="2")]))
    await turn_of(model, FIRST)
    await model.record_decision(ScriptedDecision(False, "run_python", "Not now"), prompt="Sum n")
    await model.record_decision(ScriptedDecision(True, "run_python"), prompt="Sum n")
    played = RecordedModel(load(whole), name="x")
    assert [one.approved for one in played.scripted_decisions("Sum n")] == [False, True]
    assert played.scripted_decisions("Thank you") == ()
    await recorded(whole, (FIRST, say("4")))
    assert load(whole).decisions == ()


WRITE = """
import asyncio, sys
from pathlib import Path
from agent_kernel.testing import say
from tests.core.models.recordings.questions import recorded, request, user

path, name = sys.argv[1:]
print("ready", flush=True)
sys.stdin.readline()
prompts = ["the same for both", *(f"{name} asks {n}" for n in range(1, 8))]
turns = [(request(user(prompt)), say(f"{name} {n}")) for n, prompt in enumerate(prompts)]
asyncio.run(recorded(Path(path), *turns))
"""


def test_two_processes_that_write_at_once_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "both.jsonl"
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "cwd": ROOT}
    writers = [subprocess.Popen([sys.executable, "-c", WRITE, str(path), name], **pipes) for name in ("ann", "bob")]
    assert [one.stdout.readline() for one in writers] == ["ready\n"] * 2
    for one in writers:
        print(file=one.stdin, flush=True)
    assert [(one.communicate(timeout=120), one.returncode)[1] for one in writers] == [0, 0]
    assert sorted(answers(path)) == sorted(f"{name} {n}" for name in ("ann", "bob") for n in range(8))
    load(path)


BY_HAND = "version control"
FAULTS = {
    "a conflict": ('{"kind":"turn"', '<<<<<<< HEAD\n{"kind":"turn"', ":3: this line is not JSON", BY_HAND),
    "an unknown field": ('"step":1', '"step":1,"speed":1', ":4: not valid at turn.speed", BY_HAND),
    "a newer version": (
        '"version":2',
        '"version":3',
        ":1: this recording has version 3",
        "pip install --upgrade . from a newer clone",
    ),
    "cut off": ('"Gladly."}}\n', "", ":5: the recording is cut off", "agent-kernel record NOTEBOOK"),
}


@pytest.mark.parametrize(("old", "new", "said", "remedy"), FAULTS.values(), ids=FAULTS)
def test_a_fault_of_a_recording_is_said_with_file_line_and_remedy(
    whole: Path, old: str, new: str, said: str, remedy: str
) -> None:
    text = whole.read_text()
    assert old in text
    whole.write_text(text.replace(old, new, 1))
    assert f"{whole}{said}" in fault(whole)
    assert remedy in fault(whole)


def test_sizes_are_bounded(whole: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recordings, "LONGEST_LINE", 150)
    assert "longer than" in fault(whole)
    monkeypatch.setattr(recordings, "LARGEST_FILE", 300)
    assert "larger than" in fault(whole)


def test_a_recording_is_never_written_over_another_file(tmp_path: Path) -> None:
    notes = tmp_path / "notes.txt"
    notes.write_text("mine")
    with pytest.raises(ConfigurationError, match=r"ends in \.jsonl"):
        record(notes, ScriptedModel([]))
    other = tmp_path / "data.jsonl"
    other.write_text('{"a": 1}\n')
    with pytest.raises(ConfigurationError, match="is not a recording"):
        record(other, ScriptedModel([]))
    assert other.read_text() == '{"a": 1}\n'


async def test_what_breaks_while_it_is_recorded_is_an_error_of_the_model_with_file_and_remedy(
    tmp_path: Path,
) -> None:
    path = tmp_path / "there" / "a.jsonl"
    model = record(path, ScriptedModel([say("one"), say("two")]))
    await turn_of(model, FIRST)
    shutil.rmtree(path.parent)
    path.parent.write_text("")  # a file is where the folder was
    for write in (turn_of(model, OTHER), model.record_decision(ScriptedDecision(True), prompt="Sum n")):
        with pytest.raises(RecordingNotWritten, match=r"can't be written: .* record") as raised:
            await write
        assert str(path) in str(raised.value)


def test_the_resolver_finds_recordings_by_the_notebooks_folder_and_never_outside(whole: Path) -> None:
    (whole.parent / "sub").mkdir()
    resolver = ModelResolver(environ={}, base_directory=whole.parent)
    assert resolver.resolve("replay:../a.jsonl", "sub/n.ipynb").recorded
    for kind in ("replay", "record"):
        environ = {"AGENT_KERNEL_MODEL": "demo"}
        with pytest.raises(ConfigurationError, match="inside the server's directory"):
            ModelResolver(environ=environ, base_directory=whole.parent).resolve(f"{kind}:../../a.jsonl", "sub/n.ipynb")


@pytest.mark.parametrize(
    "make",
    [os.mkfifo, Path.mkdir, lambda path: path.symlink_to("/dev/zero")],
    ids=["pipe", "folder", "device"],
)
def test_only_a_regular_file_is_a_recording(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make: Callable[[Path], None]
) -> None:
    """Opening a pipe would wait until somebody writes into it."""
    monkeypatch.chdir(tmp_path)
    path = Path("a.jsonl")
    make(path)
    for use in (ModelResolver().resolve, lambda _: record(path, ScriptedModel([]))):
        with pytest.raises(ConfigurationError, match=r"can't be read: (Not a regular file|Is a directory)"):
            use("replay:a.jsonl")
