"""The benchmark itself, as far as CI has time for it: it runs on a clean checkout, without its peers."""

import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from benchmarks.frame import Figure, Goal, Series
from benchmarks.scenarios import SCENARIOS
from benchmarks.scenarios.growth import exponent

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", SCENARIOS)
def test_every_scenario_that_is_listed_is_there(name: str) -> None:
    assert callable(import_module(f"benchmarks.scenarios.{name}").run)


@pytest.mark.slow
def test_a_scenario_prints_its_row_without_peers() -> None:
    command = [sys.executable, "-m", "benchmarks", "--only", "steps", "--rounds", "1", "--no-peers", "--no-files"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert "added time per tool step, log on disk" in done.stdout
    assert "raw aiohttp, log" in done.stdout
    assert "create_agent" not in done.stdout


def test_a_goal_is_met_up_to_its_limit_and_missed_beyond() -> None:
    assert Figure("a cost", 2.0, "ms", Goal(2.0, "2 ms")).verdict == "met"
    assert Figure("a cost", 2.1, "ms", Goal(2.0, "2 ms")).verdict == "missed"
    assert Figure("a speed", 4.9, "x", Goal(5, "5 times", "at least")).verdict == "missed"
    assert Figure("no goal", 1.0, "ms").verdict == ""


def test_what_doubles_with_its_size_is_linear() -> None:
    assert exponent(Series("a cost", (50, 100, 200, 400), (9.0, 10.0, 20.0, 40.0), "ms")) == pytest.approx(1.0)
    assert exponent(Series("a cost", (50, 100, 200, 400), (9.0, 10.0, 40.0, 160.0), "ms")) == pytest.approx(2.0)
