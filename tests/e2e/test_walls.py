"""The walls around shell commands, on their cards: each level, a command that they stop, and the same one outside."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from agent_kernel.protocol.calls import WallsFound
from agent_kernel.testing import call, say
from agent_kernel.tools.walls.inside import found_walls, meaning_of, words_of
from tests.e2e.conftest import OpenNotebook
from tests.e2e.lab import LabServer, NotebookPage, close_notebooks
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


def writing(outside: Path) -> str:
    return f"touch inside.txt; touch {outside}"


def shows(notebook: NotebookPage, words: str, card: int = 0) -> None:
    expect(notebook.card(card)).to_contain_text(meaning_of(words))
    expect(notebook.card(card)).to_contain_text(f"walls: {words}.")


def test_a_command_that_the_walls_stop_says_so_and_runs_outside_once(
    open_notebook: OpenNotebook, lab: LabServer, model: WrittenModel, end: Gate, outside: Path, walls: WallsFound
) -> None:
    stopped, command = Gate(say("It was stopped.")), writing(outside)
    model.says(call("run_shell", command=command), stopped, call("run_shell", command=command, outside=True), end)
    notebook = open_notebook([LOAD, PROMPT])
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


def test_a_folder_that_wants_read_only_walls_has_them(
    open_notebook: OpenNotebook, lab: LabServer, model: WrittenModel, end: Gate, outside: Path, walls: WallsFound
) -> None:
    (lab.root / ".agent-kernel.toml").write_text('walls = "read-only"\n')
    model.says(call("run_shell", command=writing(outside)), end)
    notebook = open_notebook([LOAD, PROMPT])
    notebook.run_through(1)
    shows(notebook, words_of(walls, "read-only"))
    notebook.press("Approve")
    notebook.wait_for_state("error")
    expect(notebook.card()).to_contain_text("stopped by the walls: ")
    assert not (lab.root / "inside.txt").exists()


def test_a_site_that_wants_no_walls_has_none(
    model: WrittenModel, shared_model: WrittenModel, end: Gate, fresh_page: Page, tmp_path: Path, outside: Path
) -> None:
    model.says(call("run_shell", command=writing(outside)), end)
    arguments = ["--AgentKernelServer.shell_walls=none"]
    with LabServer(tmp_path, shared_model.server.environment(), arguments=arguments) as lab:
        notebook = NotebookPage(lab, fresh_page, lab.write_notebook("none.ipynb", [LOAD, PROMPT]))
        notebook.run_through(1)
        shows(notebook, "none (this site wants none)")
        notebook.press("Approve")
        notebook.wait_for_state("success")
        assert outside.exists()
        end.open()
        notebook.wait_for_end()
        close_notebooks(fresh_page)
