"""The benchmark itself, as far as there is time for it: it runs on a clean checkout, without its peers."""

import subprocess
import sys
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import pytest

import benchmarks.__main__ as benchmark
from benchmarks.frame import FORBIDDEN, WITHOUT_PEERS, Figure, Floor, Goal, Report, Skipped
from benchmarks.scenarios import SCENARIOS
from benchmarks.tables import PAGE, PARTS, Line, filled, past, table_line, unfit

pytestmark = pytest.mark.soak
ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", SCENARIOS)
def test_every_scenario_that_is_listed_is_there(name: str) -> None:
    assert callable(import_module(f"benchmarks.scenarios.{name}").run)


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


def test_a_scenario_that_fails_costs_the_others_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def load(name: str) -> SimpleNamespace:
        report = Report(figures=[Figure(name, 1.0, "ms", Goal(2.0, "2 ms"))])
        return SimpleNamespace(run=(lambda rounds: report) if name.endswith("steps") else None)

    monkeypatch.setattr(sys, "argv", ["benchmarks", "--only", "tokens,steps", "--no-peers", "--no-files"])
    monkeypatch.setattr(benchmark, "import_module", load)
    monkeypatch.setenv(WITHOUT_PEERS, "1")
    assert benchmark.main() == 1
    printed = capsys.readouterr()
    assert "| benchmarks.scenarios.steps | 1 ms | at most 2 ms | met" in " ".join(printed.out.split())
    assert "Not measured, see above: tokens" in printed.err


def test_a_table_has_each_goal_with_its_ratio_and_verdict() -> None:
    figures = [
        asdict(Figure("a cost", 4.0, "ms", beside={"a peer": 16.0, "another": 1.0})),
        asdict(Figure("... by a peer's", 0.25, "x", Goal(0.2, "0.2 times a peer's"), floor=Floor(0.1, "a loop's"))),
        asdict(Figure("something else", 1.0, "ms", Goal(2, "2 ms"))),
    ]
    line = table_line(Line("A cost", "scenario", "a cost", ("a peer",)), figures)
    assert line == "| A cost | 4 ms | at most 0.2 times a peer's: **0.25 x** (missed) | a loop's 0.1 x | a peer 16 |"


def test_a_scenario_that_needs_a_browser_is_skipped_with_a_clear_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def without(*_: object) -> None:
        raise Skipped("there is no browser")

    monkeypatch.setattr(sys, "argv", ["benchmarks", "--only", "saving", "--no-peers", "--no-files"])
    monkeypatch.setattr(benchmark, "import_module", lambda name: SimpleNamespace(run=without))
    monkeypatch.setenv(WITHOUT_PEERS, "1")
    assert benchmark.main() == 0
    assert "saving is skipped: there is no browser." in capsys.readouterr().err


def test_the_page_has_a_place_for_each_table_and_takes_only_the_results_of_one_run() -> None:
    parts = {"loop": "one", "felt": "two", "measured": "three", "past": "- four"}
    text = filled(PAGE.read_text(encoding="utf-8"), parts)
    for part in ("<!-- loop -->\none\n<!-- /loop -->", "\ntwo\n", "\nthree\n", "\n- four\n"):
        assert part in text
    names = {line.scenario for lines in PARTS.values() for line in lines}
    assert names <= set(SCENARIOS)
    assert unfit({name: {"when": "now"} for name in names}) == ""
    assert "several runs" in unfit({name: {"when": name} for name in names})
    assert "not measured" in unfit({})


def test_a_goal_is_met_up_to_its_limit_and_missed_beyond() -> None:
    assert Figure("a cost", 2.0, "ms", Goal(2.0, "2 ms")).verdict == "met"
    assert Figure("a cost", 2.1, "ms", Goal(2.0, "2 ms")).verdict == "missed"
    assert Figure("a speed", 4.9, "x", Goal(5, "5 times", "at least")).verdict == "missed"
    assert Figure("no goal", 1.0, "ms").verdict == ""


def test_what_is_past_its_goal_is_told_with_its_floor_and_why() -> None:
    goal = Goal(1.2, "1.2 times the cell's")
    figures = [
        asdict(Figure("a cost", 4.0, "ms", Goal(3, "3 ms"), floor=Floor(2.0, "bare"))),
        asdict(Figure("... by a cell's", 1.5, "x", goal, floor=Floor(1.3, "a bare loop's"))),
        asdict(Figure("another", 1.0, "ms", Goal(2, "2 ms"))),
    ]
    lines = [Line("A cost", "one", "a cost", why="it is dear"), Line("Another", "one", "another", why="never said")]
    assert past(lines, {"one": {"figures": figures}}).splitlines() == [
        "- A cost: 4 ms, at most 3 ms wanted (missed; bare 2 ms). Why: it is dear.",
        "- A cost: 1.5 x, at most 1.2 times the cell's wanted (missed by its floor too; a bare loop's 1.3 x). "
        "Why: it is dear.",
    ]
    assert past(lines[1:], {"one": {"figures": figures}}) == "Nothing."


def test_a_goal_that_the_floor_misses_too_is_told_apart_from_one_that_is_missed() -> None:
    goal = Goal(2.0, "2 ms")
    assert Figure("a cost", 3.0, "ms", goal, floor=Floor(1.9, "bare")).verdict == "missed"
    assert Figure("a cost", 3.0, "ms", goal, floor=Floor(2.5, "bare")).verdict == FORBIDDEN
    assert Figure("a cost", 1.0, "ms", goal, floor=Floor(2.5, "bare")).verdict == "met"
