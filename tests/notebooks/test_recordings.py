"""Recording and replaying in real kernels: what changed stops the run, and what can't be helped does not."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest

from agent_kernel.models.recordings.format import load
from agent_kernel.testing import FakeOpenAI, call, say
from tests.notebooks.kernel import TestKernel

pytestmark = [pytest.mark.kernel, pytest.mark.slow]

CODE = "print(sum(numbers))"
FIELDS = ("OPENAI_API_KEY", "OPENAI_BASE_URL", "AGENT_KERNEL_MODEL", "AGENT_KERNEL_REPLAY")


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that was recorded by the option of its cell."""
    folder = tmp_path_factory.mktemp("notebook")
    with FakeOpenAI([call("run_python", code=CODE), say("The sum is 4.")]) as model:
        kernel = TestKernel({**os.environ, **dict.fromkeys(FIELDS, ""), **model.environment()})
        play(kernel, folder, "--record sum.jsonl")
        kernel.close()
    return folder / "sum.jsonl"


@pytest.fixture(scope="module")
def offline() -> Iterator[TestKernel]:
    """A kernel with no key and no model."""
    kernel = TestKernel({**os.environ, **dict.fromkeys(FIELDS, "")})
    yield kernel
    kernel.close()


def play(kernel: TestKernel, folder: Path, options: str, *, first: int = 1, history: bool = True) -> str:
    """Run the notebook's cells; `history` is off as with nbval. Returns what the agent's cell showed."""
    for code in (f"import os\nos.chdir({str(folder)!r})\n%load_ext agent_kernel", f"numbers = [{first}, 3]"):
        kernel.run(code, stored=history)
    cell = kernel.run(f"%%agent --new --policy allow {options}\nSum the numbers.", stored=history)
    return "\n".join([*map(str, cell.shown("text/html")), cell.streams(), cell.reply.get("evalue", "")])


def test_a_recording_plays_with_no_key_and_no_history_as_in_nbval(recording: Path, offline: TestKernel) -> None:
    assert "The sum is 4." in play(offline, recording.parent, "--model replay:sum.jsonl", history=False)


def command(notebook: Path, model: FakeOpenAI, *options: str, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [Path(sys.executable).with_name("agent-kernel"), "record", str(notebook), *options],
        check=False,
        env={**os.environ, **dict.fromkeys(FIELDS, ""), **model.environment(), **environ},
        capture_output=True,
        text=True,
        timeout=240,
    )


def test_from_a_turn_on_all_is_recorded_anew_and_what_was_decided_before_stays(tmp_path: Path) -> None:
    """The first call asks: the recorded decision answers it. The second is another now, and denied by the variable."""
    cells = [
        "%load_ext agent_kernel",
        "numbers = [1, 3]",
        "%%agent --model replay:sum.jsonl\nSum the numbers.",
        "%%agent --policy allow --model replay:sum.jsonl\nAnd the mean?",
    ]
    notebook = tmp_path / "sum.ipynb"
    nbformat.write(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells]), notebook)
    saved = notebook.read_bytes()
    first = [
        call("run_python", code=CODE),
        say("The sum is 4."),
        call("run_python", code="print(2.0)"),
        say("It is 2."),
    ]
    with FakeOpenAI(first) as model:
        done = command(notebook, model, AGENT_KERNEL_APPROVE="all")
        assert done.returncode == 0, done.stderr
    assert notebook.read_bytes() == saved
    recording = tmp_path / "sum.jsonl"
    before = recording.read_text().splitlines()
    assert [one.approved for one in load(recording).decisions] == [True]
    with FakeOpenAI([call("run_python", code="print(4 / 2)"), say("Two.")]) as again:
        done = command(notebook, again, "--from", "3")
        assert done.returncode == 0, done.stderr
        assert len(again.requests) == 2
    after = recording.read_text().splitlines()
    changed = [number for number, (old, new) in enumerate(zip(before, after, strict=True)) if old != new]
    turns = [number for number, row in enumerate(before) if '"kind":"turn"' in row]
    assert changed == turns[2:]
    assert [placed.turn.answer.content for placed in load(recording).turns] == ["", "The sum is 4.", "", "Two."]
    with FakeOpenAI() as unasked:
        done = command(notebook, unasked, "--turn", "9")
    assert done.returncode == 1
    assert "sum.jsonl has 4 turns, so none was recorded: there is no turn 9." in done.stderr
