"""Makes the table, and writes it into docs/figures.md and all measurements into `benchmarks/results`."""

import json
import os
import platform
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

from benchmarks.frame import ROOT, Figure, Report

RESULTS = Path(__file__).parent / "results"
LATEST = "latest.json"
PAGE = ROOT / "docs" / "figures.md"


@dataclass(frozen=True, slots=True)
class Circumstances:
    """The circumstances of a measurement besides the code."""

    when: str
    """The time in UTC, ISO 8601."""
    machine: str
    load: float | None
    """The load average of the minute before."""
    rounds: int

    @classmethod
    def now(cls, rounds: int) -> Self:
        load = round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None
        return cls(datetime.now(UTC).isoformat(timespec="seconds"), machine(), load, rounds)

    def __str__(self) -> str:
        busy = "" if self.load is None else f"; load average before: {self.load:g}"
        return f"{self.when[:10]}, {self.machine}; rounds: {self.rounds}{busy}"


def machine() -> str:
    kind = f"{platform.system()} {platform.machine()}, Python {platform.python_version()}"
    return f"{os.cpu_count()} cores{_processor()}, {kind}"


def _processor() -> str:
    """The processor's name, which Linux has only in a file."""
    file = Path("/proc/cpuinfo")
    if not file.exists():
        return f" ({platform.processor()})" if platform.processor() else ""
    names = [line.partition(":")[2].strip() for line in file.read_text().splitlines() if line.startswith("model name")]
    return f" ({names[0]})" if names else ""


def number(value: float) -> str:
    """A number with at most three significant digits, without an exponent."""
    if abs(value) >= 1_000:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def as_table(reports: Mapping[str, Report], circumstances: Circumstances) -> str:
    """The figures as a Markdown table."""
    rows = [("", "", "goal", "", "floor", "beside")]
    for report in reports.values():
        rows += [_row(figure) for figure in report.figures]
    notes = [f"{name}: {note}" for name, report in reports.items() for note in report.notes]
    widths = [max(len(row[column]) for row in rows) for column in range(5)]
    lines = [_line(row, widths) for row in rows]
    lines.insert(1, "|".join(["", *("-" * (width + 2) for width in widths), "---", ""]))
    return "\n".join([*lines, "", *notes, str(circumstances)])


def _row(figure: Figure) -> tuple[str, str, str, str, str, str]:
    beside = "; ".join(f"{name} {number(value)}" for name, value in figure.beside.items())
    goal = f"{figure.goal.direction} {figure.goal.what}" if figure.goal else ""
    floor = f"{figure.floor.what} {number(figure.floor.value)}" if figure.floor else ""
    return figure.what, f"{number(figure.value)} {figure.unit}".strip(), goal, figure.verdict, floor, beside


def _line(row: tuple[str, ...], widths: list[int]) -> str:
    cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=False)]
    return f"| {' | '.join([*cells, row[-1]])} |"


def write_results(name: str, report: Report, circumstances: Circumstances) -> None:
    """Write the results. `latest.json` keeps earlier results of other scenarios, each with its circumstances."""
    RESULTS.mkdir(exist_ok=True)
    kept = read_results()
    kept[name] = {**asdict(circumstances), **asdict(report)}
    (RESULTS / LATEST).write_text(json.dumps({"scenarios": kept}, indent=1))


def read_results() -> dict[str, Any]:
    """The newest report of each scenario, with its circumstances."""
    path = RESULTS / LATEST
    scenarios: dict[str, Any] = json.loads(path.read_text())["scenarios"] if path.exists() else {}
    return scenarios


def write_page(table: str) -> None:
    """Put the table into docs/figures.md, between its comments."""
    begin, end = "<!-- figures -->", "<!-- /figures -->"
    text, found = re.subn(f"(?s){begin}.*{end}", lambda _: f"{begin}\n{table}\n{end}", PAGE.read_text("utf-8"))
    if found != 1:
        raise SystemExit(f"{PAGE.name} has no place {begin} ... {end}.")
    PAGE.write_text(text, encoding="utf-8")
