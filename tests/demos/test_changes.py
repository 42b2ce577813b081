"""A demo notebook as a test: one number of its data, or one word of a prompt, changes, and the report says why."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.demos.run import NOTEBOOKS
from tests.notebooks.nbval_project import change, in_order, run_pytest

pytestmark = [pytest.mark.kernel, pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy of the notebooks in a place of its own."""
    return shutil.copytree(NOTEBOOKS, tmp_path / "notebooks")


def failed(folder: Path, name: str) -> str:
    """The report of a notebook that is run as a test, and fails."""
    done: subprocess.CompletedProcess[str] = run_pytest(
        sys.executable, folder, dict(os.environ), "-q", "-p", "no:cacheprovider", f"{name}.ipynb"
    )
    assert done.returncode == 1, done.stdout + done.stderr
    return done.stdout


def test_a_number_in_the_data_changes(folder: Path) -> None:
    file = folder / "data" / "sunspots.csv"
    text = file.read_text(encoding="utf-8")
    assert text.count("1957,190.2") == 1
    file.write_text(text.replace("1957,190.2", "1957,19.2"), encoding="utf-8")
    report = failed(folder, "plots")
    told = ("The recording no longer fits", "In an image of the result of run_python:", "It shows something else")
    assert in_order(report, *told), report


def test_a_word_of_a_prompt_changes(folder: Path) -> None:
    change(folder / "quickstart.ipynb", "Compare the species", "Compare the islands")
    report = failed(folder, "quickstart")
    assert in_order(report, "can't answer", "Compare the islands", "It answers:"), report
