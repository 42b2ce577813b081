"""CI tells flaky from broken: what fails is run once more, alone."""

import os
import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).parents[3]
FAILS_ONCE = """
from pathlib import Path

def test_passes(): pass

def test_fails_at_first():
    tried = Path("tried")
    first = not tried.exists()
    tried.touch()
    assert not first
"""


def run(folder: Path, *selection: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.second_try", "-q", "-p", "xdist.plugin", "--rootdir=.", "--", *selection]
    environment = os.environ | {"PYTHONPATH": str(REPOSITORY), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def listed(folder: Path) -> list[str]:
    flaky = folder / "test-results/flaky.txt"
    return flaky.read_text().splitlines() if flaky.exists() else []


def test_a_test_that_passes_at_its_second_try_is_listed_as_flaky(tmp_path: Path) -> None:
    (tmp_path / "test_a.py").write_text(FAILS_ONCE)

    ended = run(tmp_path, ".")

    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert listed(tmp_path) == ["test_a.py::test_fails_at_first"]
    assert "1 passed" in ended.stdout.splitlines()[-1]
