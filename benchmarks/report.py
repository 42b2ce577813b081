"""Makes the table, and writes it into docs/figures.md, and all measurements into a file."""

import json
import os
import platform
import re
from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.frame import ROOT, Figure, Report

RESULTS = Path(__file__).parent / "results" / "latest.json"
PAGE = ROOT / "docs" / "figures.md"


def circumstances(rounds: int) -> str:
    """When, where and how the measurement was made."""
    load = f"; load average before: {os.getloadavg()[0]:.2g}" if hasattr(os, "getloadavg") else ""
    kind = f"{platform.system()} {platform.machine()}, Python {platform.python_version()}"
    return f"{datetime.now(UTC):%Y-%m-%d}, {os.cpu_count()} cores{_processor()}, {kind}; rounds: {rounds}{load}"


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


def as_table(reports: Mapping[str, Report], made: str) -> str:
    """The figures as a Markdown table."""
    rows: list[tuple[str, ...]] = [("", "", "goal", "", "beside")]
    for report in reports.values():
        rows += [_row(figure) for figure in report.figures]
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    lines = [_line(row, widths) for row in rows]
    lines.insert(1, "|".join(["", *("-" * (width + 2) for width in widths), "---", ""]))
    return "\n".join([*lines, "", made])


def _row(figure: Figure) -> tuple[str, ...]:
    beside = "; ".join(f"{name} {number(value)}" for name, value in figure.beside.items())
    goal = f"{figure.goal.direction} {figure.goal.what}" if figure.goal else ""
    return figure.what, f"{number(figure.value)} {figure.unit}".strip(), goal, figure.verdict, beside


def _line(row: tuple[str, ...], widths: list[int]) -> str:
    cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=False)]
    return f"| {' | '.join([*cells, row[-1]])} |"


def write_results(reports: Mapping[str, Report], made: str) -> None:
    """Every measurement of the last run."""
    RESULTS.parent.mkdir(exist_ok=True)
    found = {name: asdict(report) for name, report in reports.items()}
    RESULTS.write_text(json.dumps({"made": made, "scenarios": found}, indent=1))


def write_page(table: str) -> None:
    """Put the table into docs/figures.md, between its comments."""
    begin, end = "<!-- figures -->", "<!-- /figures -->"
    text, found = re.subn(f"(?s){begin}.*{end}", lambda _: f"{begin}\n{table}\n{end}", PAGE.read_text("utf-8"))
    if found != 1:
        raise SystemExit(f"{PAGE.name} has no place {begin} ... {end}.")
    PAGE.write_text(text, encoding="utf-8")
