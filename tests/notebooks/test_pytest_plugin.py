"""`pytest --nbval` in a project of its own, with a notebook whose agent plays a recording."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import nbclient
import nbformat
import pytest

from agent_kernel.protocol.vocabulary import OPEN_RUN_MARK, RECORDING_CHANGED
from agent_kernel.testing import FakeOpenAI, call, say
from tests.notebooks.nbval_project import NUMBERS, change, in_order, run_pytest

pytestmark = [pytest.mark.kernel, pytest.mark.slow, pytest.mark.timeout(900)]


def execute(notebook: nbformat.NotebookNode, project: Path, **environ: str) -> None:
    client = nbclient.NotebookClient(notebook, kernel_name="python3", resources={"metadata": {"path": str(project)}})
    client.execute(env={**os.environ, **environ})


def nbval(project: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return run_pytest(sys.executable, project, dict(os.environ), *options)


@pytest.fixture(scope="module")
def version_2(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A notebook that was recorded, and then saved as it plays."""
    project = tmp_path_factory.mktemp("version2")
    cells = ["%load_ext agent_kernel", NUMBERS, "%%agent --model replay:sum.jsonl\nAdd the numbers up."]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    turns = [call("run_python", code="print(sum(numbers))"), say("They add up to 15.")]
    with FakeOpenAI(turns) as model:
        execute(notebook, project, AGENT_KERNEL_REPLAY="record", AGENT_KERNEL_APPROVE="all", **model.environment())
        execute(notebook, project, AGENT_KERNEL_REPLAY="strict", AGENT_KERNEL_APPROVE="all")
    nbformat.write(notebook, project / "sum.ipynb")
    return project


def test_a_recording_that_no_longer_fits_is_said_first_with_both_sides(version_2: Path, tmp_path: Path) -> None:
    project = Path(shutil.copytree(version_2, tmp_path / "project"))
    change(project / "sum.ipynb", NUMBERS, "numbers = [3, 9, 5]")
    failed = nbval(project, "sum.ipynb", "-p", "no:xdist")
    assert failed.returncode == 1
    assert in_order(
        failed.stdout,
        "The agent's run in Cell 2 of sum.ipynb failed:",
        f"{RECORDING_CHANGED}: sum.jsonl:",
        "In the result of run_python:",
        "agent-kernel record NOTEBOOK --turn",
        "Notebook cell execution failed",
    ), failed.stdout
    assert re.search(r"^ *15 +\| 17$", failed.stdout, re.MULTILINE), failed.stdout


def test_a_notebook_that_was_saved_while_its_run_went_on_is_said_to_be(version_2: Path, tmp_path: Path) -> None:
    project = Path(shutil.copytree(version_2, tmp_path / "project"))
    notebook = nbformat.read(project / "sum.ipynb", as_version=4)
    halfway = {"text/plain": "Agent run: waiting for a decision.", "text/html": "<p>Waiting for a decision.</p>"}
    notebook.cells[2].outputs = [nbformat.v4.new_output("display_data", halfway, metadata={OPEN_RUN_MARK: "run_a"})]
    nbformat.write(notebook, project / "sum.ipynb")
    failed = nbval(project, "sum.ipynb", "-p", "no:xdist", "-vv")
    assert failed.returncode == 1
    assert "sum.ipynb was saved while the run of this cell went on" in failed.stdout, failed.stdout
