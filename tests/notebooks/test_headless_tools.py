"""The tools that execute notebooks end with an exit status that says that a run failed, and name it."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.notebooks.headless import SETUP, UNAWAITED, printed, write_notebook

pytestmark = [pytest.mark.kernel, pytest.mark.slow]

TOOLS = {
    "papermill": ("papermill", "in.ipynb", "out.ipynb"),
    "nbconvert": ("jupyter", "nbconvert", "--execute", "--to", "notebook", "in.ipynb", "--output", "out.ipynb"),
    "agent-kernel run": ("agent-kernel", "run", "in.ipynb", "--output", "out.ipynb"),
}


def execute(folder: Path, command: tuple[str, ...], *more: str) -> "subprocess.CompletedProcess[str]":
    program = Path(sys.executable).with_name(command[0])
    return subprocess.run(
        [program, *command[1:], *more], cwd=folder, capture_output=True, text=True, timeout=240, check=False
    )


@pytest.mark.parametrize("tool", ["papermill", "nbconvert"])
def test_a_run_that_nobody_awaited_fails_the_notebook_and_is_named(tmp_path: Path, tool: str) -> None:
    write_notebook(tmp_path / "in.ipynb", SETUP, UNAWAITED, "print('after')")
    done = execute(tmp_path, TOOLS[tool])
    assert done.returncode == 1
    said = done.stdout + done.stderr
    assert 'RunFailed: The agent\'s run "Sum the table" failed: The service is down.' in said
    assert re.search(r"Failed: run_[0-9a-f]{32}", said)
    if tool == "papermill":  # the other writes nothing then
        assert "RunFailed" in printed(tmp_path / "out.ipynb")[-2]
        assert "after" not in printed(tmp_path / "out.ipynb")[-1]
