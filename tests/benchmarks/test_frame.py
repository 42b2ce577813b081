"""The benchmark itself, as far as there is time for it: it runs on a clean checkout, without its peers."""

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import benchmarks.__main__ as benchmark
from benchmarks.frame import WITHOUT_PEERS, Figure, Goal, Report, Skipped

pytestmark = pytest.mark.soak
ROOT = Path(__file__).parents[2]


def test_a_scenario_prints_its_row_without_peers() -> None:
    command = [sys.executable, "-m", "benchmarks", "--only", "steps", "--rounds", "1", "--no-peers"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert "added time per tool step, log on disk" in done.stdout
    assert "create_agent" not in done.stdout


def test_a_scenario_that_fails_costs_the_others_nothing_and_one_that_is_skipped_says_why(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    report = Report(figures=[Figure("a step", 1.0, "ms", Goal(2.0, "2 ms"))])

    def skipped(*_: object) -> None:
        raise Skipped("there is no browser")

    scenarios = SimpleNamespace(steps=lambda rounds: report, tokens=None, saving=skipped)
    monkeypatch.setattr(sys, "argv", ["benchmarks", "--only", "tokens,saving,steps", "--no-peers"])
    monkeypatch.setattr(benchmark, "import_module", lambda name: scenarios)
    monkeypatch.setenv(WITHOUT_PEERS, "1")
    assert benchmark.main() == 1
    printed = capsys.readouterr()
    assert "| a step | 1 ms | at most 2 ms | met" in " ".join(printed.out.split())
    assert "Not measured, see above: tokens" in printed.err
    assert "saving is skipped: there is no browser." in printed.err
