"""The pytest plugin in a project of its own, with the wheel installed beside nbval, as a user has it.

`.ci/run` builds the wheel and names the Python that has it by `WHEEL_PYTHON`.
"""

import os
import subprocess
from pathlib import Path

import pytest

from tests.notebooks.nbval_project import PROMPT, change, in_order, run_pytest, write_project

PYTHON = os.environ.get("WHEEL_PYTHON", "")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.skipif(not PYTHON, reason="WHEEL_PYTHON names no Python with the wheel: .ci/run does"),
]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with a notebook that has run and was saved."""
    folder = tmp_path / "project"
    folder.mkdir()
    notebook = write_project(folder)
    execute = [PYTHON, "-m", "nbconvert", "--execute", "--inplace", "--to", "notebook", notebook.name]
    wanted = {"AGENT_KERNEL_REPLAY": "strict", "AGENT_KERNEL_APPROVE": "recorded"}
    done = subprocess.run(
        execute, cwd=folder, env=outside() | wanted, capture_output=True, text=True, timeout=280, check=False
    )
    assert done.returncode == 0, done.stderr
    return folder


def outside() -> dict[str, str]:
    """The environment without what leads to this checkout."""
    return {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}


def test_the_plugin_is_there_and_notebooks_pass_twice_in_random_order_and_with_xdist(project: Path) -> None:
    (project / "again.ipynb").write_bytes((project / "first.ipynb").read_bytes())
    for options in (("-p", "no:xdist"), ("-n", "2")):
        ran = run_pytest(PYTHON, project, outside(), *options)
        assert ran.returncode == 0, ran.stdout + ran.stderr
        assert "8 passed" in ran.stdout
        assert "agent-kernel: recordings strict, approvals recorded" in ran.stdout
        assert "Using --randomly-seed=" in ran.stdout


def test_a_failure_begins_with_why_the_run_failed(project: Path) -> None:
    change(project / "first.ipynb", PROMPT, "Multiply the numbers.")
    failed = run_pytest(PYTHON, project, outside())
    assert failed.returncode == 1
    assert in_order(failed.stdout, "failed:", "'Multiply the numbers.'", "Notebook cell execution failed"), (
        failed.stdout
    )
