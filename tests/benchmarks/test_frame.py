"""The benchmark itself, as far as there is time for it: it runs on a clean checkout, without its peers."""

import subprocess
import sys
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import pytest

import benchmarks.__main__ as benchmark
from benchmarks.frame import FORBIDDEN, WITHOUT_PEERS, Figure, Floor, Goal, Report, Skipped
from benchmarks.scenarios import SCENARIOS

pytestmark = pytest.mark.soak
ROOT = Path(__file__).parents[2]


def test_a_scenario_prints_its_row_without_peers() -> None:
    command = [sys.executable, "-m", "benchmarks", "--only", "steps", "--rounds", "1", "--no-peers", "--no-files"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert "added time per tool step, log on disk" in done.stdout
    assert "raw aiohttp, log" in done.stdout
    assert "create_agent" not in done.stdout


def test_the_help_says_what_each_scenario_measures() -> None:
    command = [sys.executable, "-m", "benchmarks", "--help"]
    said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=True).stdout
    for name in SCENARIOS:
        (line,) = [line for line in said.splitlines() if line.split()[:1] == [name]]
        assert len(line.split()) > 4, line
        assert callable(getattr(import_module(f"benchmarks.scenarios.{SCENARIOS[name]}"), name))


def test_a_scenario_that_fails_costs_the_others_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    report = Report(figures=[Figure("a step", 1.0, "ms", Goal(2.0, "2 ms"))])

    def load(name: str) -> SimpleNamespace:
        return SimpleNamespace(steps=lambda rounds: report, tokens=None)

    monkeypatch.setattr(sys, "argv", ["benchmarks", "--only", "tokens,steps", "--no-peers", "--no-files"])
    monkeypatch.setattr(benchmark, "import_module", load)
    monkeypatch.setenv(WITHOUT_PEERS, "1")
    assert benchmark.main() == 1
    printed = capsys.readouterr()
    assert "| a step | 1 ms | at most 2 ms | met" in " ".join(printed.out.split())
    assert "Not measured, see above: tokens" in printed.err


def test_a_scenario_that_needs_a_browser_is_skipped_with_a_clear_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def without(*_: object) -> None:
        raise Skipped("there is no browser")

    monkeypatch.setattr(sys, "argv", ["benchmarks", "--only", "saving", "--no-peers", "--no-files"])
    monkeypatch.setattr(benchmark, "import_module", lambda name: SimpleNamespace(saving=without))
    monkeypatch.setenv(WITHOUT_PEERS, "1")
    assert benchmark.main() == 0
    assert "saving is skipped: there is no browser." in capsys.readouterr().err


@pytest.mark.parametrize(
    ("figure", "verdict"),
    [
        (Figure("a cost", 2.0, "ms", Goal(2.0, "2 ms")), "met"),
        (Figure("a cost", 2.1, "ms", Goal(2.0, "2 ms")), "missed"),
        (Figure("a speed", 4.9, "x", Goal(5, "5 times", "at least")), "missed"),
        (Figure("no goal", 1.0, "ms"), ""),
        (Figure("a cost", 3.0, "ms", Goal(2.0, "2 ms"), floor=Floor(1.9, "bare")), "missed"),
        (Figure("a cost", 3.0, "ms", Goal(2.0, "2 ms"), floor=Floor(2.5, "bare")), FORBIDDEN),
        (Figure("a cost", 1.0, "ms", Goal(2.0, "2 ms"), floor=Floor(2.5, "bare")), "met"),
    ],
)
def test_a_goal_that_the_floor_misses_too_is_told_apart_from_one_that_is_missed(figure: Figure, verdict: str) -> None:
    assert figure.verdict == verdict
