"""`python -m benchmarks.readme`: prints the README's table of figures from the results of `python -m benchmarks`."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.frame import Goal
from benchmarks.report import number, read_results

Row = Mapping[str, Any]
"""A figure in `latest.json`."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the README: a figure, and the names of the figures beside it."""

    words: str
    scenario: str
    figure: str
    beside: Sequence[str] = ()


LINES = (
    Line("Tokens per second, burst", "tokens", "tokens per second, burst of 5,000", ("create_agent", "raw httpx")),
    Line("CPU per paced token", "tokens", "CPU per paced token", ("raw aiohttp", "raw httpx", "create_agent")),
    Line(
        "Added per tool step, on disk",
        "steps",
        "added time per tool step, log on disk",
        ("raw aiohttp, log", "create_agent", "LangGraph + openai"),
    ),
    Line(
        "Approve → tool entered, on disk",
        "approvals",
        "approve -> tool entered, log on disk",
        ("raw aiohttp, log", "create_agent", "ours, suspended"),
    ),
    Line(
        "... after 800 messages",
        "approvals",
        "approve -> tool entered, after 800 messages",
        ("create_agent", "ours, suspended"),
    ),
    Line("The 1,000th turn, beyond its request, by the 50th", "turns", "... beyond the request: 1,000 by 50"),
    Line("Disk after 1,000 turns", "turns", "disk after 1,000 turns", ("raw bytes", "create_agent (50)")),
    Line("Heap of each of 1,000 paused conversations", "paused", "heap of each of 1,000 paused conversations", ()),
    Line("`import agent_kernel`", "imports", "import agent_kernel", ("langgraph.graph, openai",)),
    Line(
        "Click → runs in the kernel, JupyterLab, p50",
        "click",
        "click -> the call runs in the kernel, p50",
        ("least", "JupyterLab's Ctrl+Enter -> cell"),
    ),
    Line("Frames per second below 500 cards", "cards", "frames per second, streaming below 500 cards"),
    Line(
        "First use: `%load_ext` and a prompt → first token",
        "first_use",
        "first use: %load_ext and the first prompt -> first token",
    ),
)


def main() -> int:
    scenarios = read_results()
    print("| | measured | goal | beside |\n| --- | --- | --- | --- |")
    for line in LINES:
        if line.scenario in scenarios:
            print(readme_line(line, scenarios[line.scenario]["figures"]))
        else:
            print(f"{line.scenario} was not measured: {line.words} is left out.", file=sys.stderr)
    measured = {f"{one['when'][:10]}, {one['machine']}" for one in scenarios.values()}
    print(f"\nMeasured on {'; '.join(sorted(measured))}.")
    return 0


def readme_line(line: Line, figures: Sequence[Row]) -> str:
    place = next(index for index, figure in enumerate(figures) if figure["what"] == line.figure)
    figure = figures[place]
    beside = "; ".join(_value(name, figure) for name in line.beside if name in figure["beside"])
    return f"| {line.words} | {number(figure['value'])} {figure['unit']} | {_goals(place, figures)} | {beside} |"


def _value(name: str, figure: Row) -> str:
    return f"{name} {number(figure['beside'][name])}"


def _goals(place: int, figures: Sequence[Row]) -> str:
    """The goal of the figure and of the ratios that follow it in the table."""
    judged = [figures[place]]
    for figure in figures[place + 1 :]:
        if not figure["what"].startswith("..."):
            break
        judged.append(figure)
    return "; ".join(_goal(figure, own=figure is figures[place]) for figure in judged if figure["goal"])


def _goal(figure: Row, *, own: bool) -> str:
    goal = Goal(**figure["goal"])
    verdict = "met" if goal.met(figure["value"]) else "missed"
    ratio = "" if own else f": **{number(figure['value'])} {figure['unit']}**"
    return f"{goal.direction} {goal.what}{ratio} ({verdict})"


if __name__ == "__main__":
    sys.exit(main())
