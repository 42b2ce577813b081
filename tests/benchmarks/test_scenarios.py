"""The benchmark's scenarios in JupyterLab and of many runs, at their smallest: they still measure what they say."""

from importlib import import_module
from typing import Any

import pytest

from benchmarks.frame import WITHOUT_PEERS, Figure, Report
from benchmarks.scenarios import SCENARIOS

pytestmark = [pytest.mark.soak, pytest.mark.e2e]
SMALLEST: dict[str, dict[str, Any]] = {
    "kernel_steps": {"steps": 3},
    "click": {"clicks": 1},
    "first_use": {},
    "embedded": {},
    "typing": {"letters": 3},
    "page_bytes": {},
    "idle_memory": {"settled": 0.1},
    "saving": {"calls": 2},
    "cards": {"most": 3},
    "many_runs": {"runs": 3},
    "flood": {},
}


@pytest.fixture(autouse=True)
def without_peers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(WITHOUT_PEERS, "1")


@pytest.mark.parametrize("name", SMALLEST)
def test_a_scenario_measures_its_figures(name: str) -> None:
    measure = getattr(import_module(f"benchmarks.scenarios.{SCENARIOS[name]}"), name)
    report: Report = measure(1, **SMALLEST[name])
    assert report.figures
    assert all(figure.value > 0 for figure in report.figures if not _may_be_less(figure)), report.figures
    assert report.raw


def _may_be_less(figure: Figure) -> bool:
    """What is to be nothing, and differences, which noise can turn around at these sizes."""
    return any(
        words in figure.what for words in ("adds", "after JupyterLab itself", "above the same", "moves", "lost", "gaps")
    )
