"""Every demo notebook as a test: one number of its data, or one word of a prompt, changes, and the report says why."""

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import nbformat
import pytest

from tests.demos.run import NOTEBOOKS
from tests.demos.test_notebooks import SHOWN
from tests.notebooks.nbval_project import in_order, run_pytest

pytestmark = [pytest.mark.kernel, pytest.mark.slow, pytest.mark.timeout(600)]
UNFIT = "The recording no longer fits"


@dataclass(frozen=True)
class Change:
    """One number of a file of data, one word of a prompt, and what the report shows of each, in this order."""

    file: str
    number: tuple[str, str]
    number_said: tuple[str, ...]
    word: tuple[str, str]
    word_said: tuple[str, ...] = ("In the prompt:",)


CHANGES = {
    "quickstart": Change(
        "penguins.csv",
        ("39.1,18.7,181,3750", "39.1,18.7,181,9750"),
        ("mismatch", "9750"),
        ("Compare the species", "Compare the islands"),
        ("can't answer", "Compare the islands", "It answers:"),
    ),
    "fixing": Change(
        "penguins.csv",
        ("39.1,18.7,181,3750", "39.1,18.7,181,9750"),
        (UNFIT, "In the user's variables:", "3 = {'Adelie': 675", "3 = {'Adelie': 757"),
        ("Check @heavier", "Look at @heavier"),
    ),
    "cleaning": Change(
        "penguins-raw.csv",
        ("39.1,18.7,181,3750", "39.1,18.7,181,9750"),
        (UNFIT, "In the result of inspect_variables:", "3750.0", "9750.0"),
        ("compare body mass", "compare bill length"),
    ),
    "tools": Change(
        "nile.csv",
        ("1899,774", "1899,1774"),
        (UNFIT, "In the result of compare:", "recorded", "1890  1067.2"),
        ("When did that change?", "Why did that change?"),
    ),
    "policies": Change(
        "nile.csv",
        ("1895,1260", "1895,1060"),
        (UNFIT, "In the result of unusual:", "1895    1260", "1894    1250"),
        ("Leave the most unusual years out.", "Leave the most unusual years in."),
    ),
    "plots": Change(
        "sunspots.csv",
        ("1957,190.2", "1957,19.2"),
        (UNFIT, "In an image of the result of run_python:", "looks different"),
        ("does it rise as it falls", "does it fall as it rises"),
    ),
    "pipeline": Change(
        "elnino.csv",
        ("28.370,27.430", "28.370,29.430"),
        (UNFIT, "In the result of run_python:", "recorded", "4.6 in 1983-06", "6.6 in 1983-06"),
        ("with a monthly PeriodIndex", "with a yearly PeriodIndex"),
    ),
    "when-things-break": Change(
        "penguins.csv",
        ("39.1,18.7,181,3750", "39.1,18.7,181,9750"),
        (UNFIT, "In the result of run_python:", "recorded", "3824.0"),
        ("are the penguins the heaviest", "are the penguins the lightest"),
    ),
    "replaying": Change(
        "penguins.csv",
        ("39.1,18.7,181,3750", "39.1,18.7,196,3750"),
        (UNFIT, "In the result of run_python:", "recorded", "Adelie       190.0", "Adelie       190.1"),
        ("has the longest flippers", "has the shortest flippers"),
    ),
}


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


def test_each_notebook_is_changed() -> None:
    assert sorted(CHANGES) == SHOWN


def some(*quick: str) -> pytest.MarkDecorator:
    """Each notebook, these in every run of the tests and the others in `make soak`."""
    names = [pytest.param(name, marks=() if name in quick else pytest.mark.soak) for name in CHANGES]
    return pytest.mark.parametrize("name", names)


@some("plots")
def test_a_number_in_the_data_changes(folder: Path, name: str) -> None:
    change = CHANGES[name]
    file = folder / "data" / change.file
    old, new = change.number
    text = file.read_text(encoding="utf-8")
    assert text.count(old) == 1
    file.write_text(text.replace(old, new), encoding="utf-8")
    report = failed(folder, name)
    assert in_order(report, *change.number_said), report


@some("quickstart")
def test_a_word_of_a_prompt_changes(folder: Path, name: str) -> None:
    change = CHANGES[name]
    path = folder / f"{name}.ipynb"
    notebook = nbformat.read(path, as_version=4)
    cells = [cell for cell in notebook.cells if cell.cell_type == "code" and change.word[0] in cell.source]
    cells[0].source = cells[0].source.replace(*change.word)
    nbformat.write(notebook, path)
    report = failed(folder, name)
    assert in_order(report, *change.word_said), report
