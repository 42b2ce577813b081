"""The walls around shell commands, on their cards: each level, a command that they stop, and the same one outside."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect

from agent_kernel.protocol.calls import WallsFound
from agent_kernel.testing import call, say
from agent_kernel.tools.walls.inside import found_walls, meaning_of, words_of
from tests.e2e.conftest import OpenNotebook
from tests.e2e.lab import LabServer, NotebookPage
from tests.e2e.model import Gate, WrittenModel

LOAD, PROMPT = "%load_ext agent_kernel", "%%agent\nWrite it."
OUTSIDE = "none (it runs outside)"


@pytest.fixture
def walls() -> WallsFound:
    found = found_walls()
    if found.kind == "none":
        pytest.skip("This machine has no walls.")
    return found


@pytest.fixture
def outside(lab: LabServer) -> Iterator[Path]:
    """The file that a command is to write elsewhere; not in /tmp, of which a command may have its own."""
    folder = Path(tempfile.mkdtemp(dir="/var/tmp"))
    yield folder / "outside.txt"
    shutil.rmtree(folder)
    for made in (lab.root / "inside.txt", lab.root / ".agent-kernel.toml"):
        made.unlink(missing_ok=True)


def shows(notebook: NotebookPage, words: str, card: int = 0) -> None:
    expect(notebook.card(card)).to_contain_text(meaning_of(words))
    expect(notebook.card(card)).to_contain_text(f"walls: {words}.")


def test_a_command_that_the_walls_stop_says_so_runs_outside_once_and_has_the_walls_that_its_folder_wants(
    open_notebook: OpenNotebook, lab: LabServer, model: WrittenModel, end: Gate, outside: Path, walls: WallsFound
) -> None:
    stopped, command = Gate(say("It was stopped.")), f"touch inside.txt; touch {outside}"
    model.says(call("run_shell", command=command), stopped, call("run_shell", command=command, outside=True), end)
    notebook = open_notebook([LOAD, PROMPT, PROMPT])
    notebook.run_through(1)
    workspace = words_of(walls, "workspace")
    shows(notebook, workspace)
    notebook.press("Approve")
    notebook.wait_for_state("error")
    expect(notebook.card()).to_contain_text(f"walls: {workspace}")
    expect(notebook.card()).to_contain_text(f"stopped by the walls: touch: cannot touch '{outside}'")
    assert ((lab.root / "inside.txt").exists(), outside.exists()) == (True, False)

    notebook.press("Run outside once")
    stopped.open()
    notebook.wait_for_state("awaiting_approval", card=1)
    shows(notebook, OUTSIDE, card=1)
    expect(notebook.card()).to_contain_text("stopped by the walls: ")  # also now that it is folded
    expect(notebook.page.locator("[data-guarded]")).to_have_count(0)
    notebook.press("Approve", card=1)
    notebook.wait_for_state("success", card=1)
    expect(notebook.card(1)).to_contain_text(f"walls: {OUTSIDE}")
    assert outside.exists()

    (lab.root / "inside.txt").unlink()
    (lab.root / ".agent-kernel.toml").write_text('walls = "read-only"\n')
    end.open()
    expect(notebook.record()).to_have_count(1)
    model.says(call("run_shell", command=command), say("Nothing was written."))
    notebook.run(2)
    shows(notebook, words_of(walls, "read-only"))
    notebook.press("Approve")
    expect(notebook.record()).to_have_count(2)
    expect(notebook.record().last).to_contain_text("stopped by the walls: ")
    assert not (lab.root / "inside.txt").exists()
