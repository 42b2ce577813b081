"""The table, and the files under `benchmarks/results`."""

import json
import os
import platform
from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.frame import Figure, Report
from benchmarks.plot import draw

RESULTS = Path(__file__).parent / "results"


def machine() -> str:
    return f"{os.cpu_count()} cores, {platform.system()} {platform.machine()}, Python {platform.python_version()}"


def number(value: float) -> str:
    """Three figures at most, without an exponent."""
    if abs(value) >= 1_000:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def as_table(reports: Mapping[str, Report]) -> str:
    """Markdown, a row per figure."""
    rows = [("", "", "goal", "", "beside")]
    for report in reports.values():
        rows += [_row(figure) for figure in report.figures]
    notes = [f"{name}: {note}" for name, report in reports.items() for note in report.notes]
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    lines = [_line(row, widths) for row in rows]
    lines.insert(1, "|".join(["", *("-" * (width + 2) for width in widths), "---", ""]))
    return "\n".join([*lines, "", *notes, f"{datetime.now(UTC):%Y-%m-%d}, {machine()}"])


def _row(figure: Figure) -> tuple[str, str, str, str, str]:
    beside = "; ".join(f"{name} {number(value)}" for name, value in figure.beside.items())
    goal = f"{figure.goal.direction} {figure.goal.what}" if figure.goal else ""
    return figure.what, f"{number(figure.value)} {figure.unit}".strip(), goal, figure.verdict, beside


def _line(row: tuple[str, ...], widths: list[int]) -> str:
    cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=False)]
    return f"| {' | '.join([*cells, row[-1]])} |"


def write_results(reports: Mapping[str, Report]) -> None:
    """`latest.json` keeps what earlier runs found of scenarios that this one left out."""
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / "latest.json"
    kept = json.loads(path.read_text())["scenarios"] if path.exists() else {}
    when = datetime.now(UTC).isoformat(timespec="seconds")
    for name, report in reports.items():
        kept[name] = {"when": when, **asdict(report)}
    path.write_text(json.dumps({"machine": machine(), "scenarios": kept}, indent=1))
    draw(kept, RESULTS / "latest.svg")
