"""The walls around shell commands, on their cards: each level, a command that they stop, and the same one outside."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from agent_kernel.testing import call, say
from agent_kernel.tools.walls.inside import found_walls, meaning_of, words_of
from tests.e2e.conftest import OpenNotebook
from tests.e2e.lab import LabServer, NotebookPage, close_notebooks
from tests.e2e.model import Gate, WrittenModel

LOAD, PROMPT = "%load_ext agent_kernel", "%%agent\nWrite it."
COMMAND = "touch inside.txt; touch ../outside.txt"
OUTSIDE = "none (it runs outside)"


@pytest.fixture
def outside(lab: LabServer) -> Iterator[Path]:
    """The file that a command is to write next to the notebook's folder."""
    file = lab.home / "outside.txt"
    yield file
    for made in (file, lab.root / "inside.txt", lab.root / ".agent-kernel.toml"):
        made.unlink(missing_ok=True)


def shows(notebook: NotebookPage, words: str, card: int = 0) -> None:
    expect(notebook.card(card)).to_contain_text(meaning_of(words))
    expect(notebook.card(card)).to_contain_text(f"walls: {words}.")


@pytest.mark.skipif(found_walls().kind == "none", reason="this machine has no walls")
def test_a_command_that_the_walls_stop_says_so_and_runs_outside_once(
    open_notebook: OpenNotebook, lab: LabServer, model: WrittenModel, end: Gate, outside: Path
) -> None:
    stopped = Gate(say("It was stopped."))
    model.says(call("run_shell", command=COMMAND), stopped, call("run_shell", command=COMMAND, outside=True), end)
    notebook = open_notebook([LOAD, PROMPT])
    notebook.run_through(1)
    workspace = words_of(found_walls(), "workspace")
    shows(notebook, workspace)
    notebook.press("Approve")
    notebook.wait_for_state("error")
    expect(notebook.card()).to_contain_text(f"walls: {workspace}")
    expect(notebook.card()).to_contain_text("stopped by the walls: touch: cannot touch '../outside.txt'")
    assert ((lab.root / "inside.txt").exists(), outside.exists()) == (True, False)

    notebook.press("Run outside once")
    stopped.open()
    notebook.wait_for_state("awaiting_approval", card=1)
    shows(notebook, OUTSIDE, card=1)
    expect(notebook.card()).to_contain_text("stopped by the walls: ")  # also now that it is folded
    notebook.press("Approve", card=1)
    notebook.wait_for_state("success", card=1)
    expect(notebook.card(1)).to_contain_text(f"walls: {OUTSIDE}")
    assert outside.exists()


@pytest.mark.skipif(found_walls().kind == "none", reason="this machine has no walls")
def test_a_folder_that_wants_read_only_walls_has_them(
    open_notebook: OpenNotebook, lab: LabServer, model: WrittenModel, end: Gate, outside: Path
) -> None:
    (lab.root / ".agent-kernel.toml").write_text('walls = "read-only"\n')
    model.says(call("run_shell", command=COMMAND), end)
    notebook = open_notebook([LOAD, PROMPT])
    notebook.run_through(1)
    shows(notebook, words_of(found_walls(), "read-only"))
    notebook.press("Approve")
    notebook.wait_for_state("error")
    expect(notebook.card()).to_contain_text("stopped by the walls: ")
    assert not (lab.root / "inside.txt").exists()


def test_a_site_that_wants_no_walls_has_none(
    model: WrittenModel, shared_model: WrittenModel, end: Gate, fresh_page: Page, tmp_path: Path
) -> None:
    model.says(call("run_shell", command=COMMAND), end)
    arguments = ["--AgentKernelServer.shell_walls=none"]
    with LabServer(tmp_path, shared_model.server.environment(), arguments=arguments) as lab:
        notebook = NotebookPage(lab, fresh_page, lab.write_notebook("none.ipynb", [LOAD, PROMPT]))
        notebook.run_through(1)
        shows(notebook, "none (this site wants none)")
        notebook.press("Approve")
        notebook.wait_for_state("success")
        assert (tmp_path / "outside.txt").exists()
        end.open()
        notebook.wait_for_end()
        close_notebooks(fresh_page)
