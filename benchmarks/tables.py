"""`python -m benchmarks.tables`: prints the tables of docs/figures.md from the results of `python -m benchmarks`, and
the goals not met.

With `--write` it puts them there and copies the plot, if all of it was measured in one run.
"""

import argparse
import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.frame import ROOT, Floor, Goal, verdict
from benchmarks.report import RESULTS, number, read_results

Row = Mapping[str, Any]
"""A figure in `latest.json`."""
PAGE = ROOT / "docs" / "figures.md"
PLOT = ROOT / "docs" / "images" / "performance.svg"


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a table: a figure, and the names of the figures beside it."""

    words: str
    scenario: str
    figure: str
    beside: Sequence[str] = ()
    why: str = ""
    """What it is spent on, for where its goal is not met."""


LOOP = (
    Line("Tokens per second, burst", "tokens", "tokens per second, burst of 5,000", ("create_agent", "raw httpx")),
    Line("CPU per paced token", "tokens", "CPU per paced token", ("raw aiohttp", "raw httpx", "create_agent")),
    Line(
        "A paced token, written → read, p50",
        "tokens",
        "a paced token, written -> read by a client, p50",
        ("ours, p99", "raw aiohttp", "create_agent", "create_agent, p99"),
    ),
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
        ("raw aiohttp, log", "create_agent"),
    ),
    Line(
        "... after 800 messages",
        "approvals",
        "approve -> tool entered, after 800 messages",
        ("raw aiohttp, log", "create_agent"),
    ),
    Line(
        "The 1,000th turn",
        "turns",
        "a turn at 1,000 turns",
        ("raw aiohttp", "raw aiohttp, log"),
        why="it is the quotient of two differences of a few milliseconds, each of one conversation a round, which went "
        "from 0.9 to 1.8 between runs of the same code on this machine; what grows is the request",
    ),
    Line("Disk after 1,000 turns", "turns", "disk after 1,000 turns", ("raw bytes", "create_agent (50)")),
    Line("`import agent_kernel`", "imports", "import agent_kernel", ("openai",)),
)
IMPORTS = "the kernel imports what a prompt needs, while the page and the server use the same cores"
RESTORED = "the widget manager asks the kernel for the cell's widget first; then the cards are built, in slices"
FELT = (
    Line(
        "A tool step in the kernel, with its model request, p50",
        "kernel_steps",
        "a tool step in the kernel with its model request, p50",
        ("JupyterLab's run of an empty cell", "... and its end is on the page"),
        why="the call and its outcome are committed, and the page draws them on the cores that the kernel needs",
    ),
    Line(
        "Click on Approve → runs in the kernel, p50",
        "click",
        "click -> the call runs in the kernel, p50",
        ("JupyterLab's Ctrl+Enter -> cell",),
        why="the decision is checked and committed, with its audit entry and event, before the call leaves",
    ),
    Line("... from a bare client's decision", "click", "a bare client's decision -> the call runs in the kernel, p50"),
    Line(
        "First use on a fresh server: Run All → first token on screen",
        "first_use",
        "first use: Run All on a fresh server -> first token on screen",
        ("JupyterLab's Run All -> a cell's output on screen", "%load_ext in the kernel"),
        why=IMPORTS,
    ),
    Line(
        "... after 3 s of reading",
        "first_use",
        "first use after 3 s of reading",
        ("JupyterLab's Run All -> a cell's output on screen", "%load_ext in the kernel"),
        why=IMPORTS,
    ),
    Line(
        "`%load_ext` → the end of an embedded kernel's first run",
        "embedded",
        "%load_ext -> the end of a first embedded run",
        ("of one that asks a service by openai's client",),
        why="LangGraph and our own modules are imported",
    ),
    Line(
        "What each `%%agent` sends to the page",
        "page_bytes",
        "what each %%agent sends to the page",
        ("kernel", "channel", "HTTP"),
        why="Jupyter's envelopes, ids, and two views of the run, whose fields the protocol promises",
    ),
    Line(
        "... one that comes late, whose page connects again",
        "page_bytes",
        "... what one sends that comes late",
        ("kernel", "channel", "HTTP"),
    ),
    Line(
        "Memory that the extension adds to an idle server",
        "idle_memory",
        "memory that the extension adds to an idle server",
        ("with it", "without"),
    ),
    Line(
        "A save while a run with 200 calls goes on",
        "saving",
        "a save while a run with 200 calls goes on",
        ("without a run", "with its record, after the run"),
        why="the file has the run's record by then, whose outputs JupyterLab and the server read and write with it",
    ),
    Line("... by a save with its record, after the run", "saving", "... by a save with its record, after the run"),
    Line(
        "500 live cards after a reload: the first, after JupyterLab itself",
        "cards",
        "a reload with 500 live cards, the first painted after JupyterLab itself",
        ("JupyterLab's own output",),
        why=RESTORED,
    ),
    Line("... all of them", "cards", "... all painted after JupyterLab itself", why=RESTORED),
    Line(
        "... the longest frame",
        "cards",
        "... longest frame",
        ("of a reload without cards",),
        why="a slice of cards is laid out and painted at once",
    ),
    Line(
        "100 runs at once, approve → tool entered, p99",
        "many_runs",
        "100 runs at once, approve -> tool entered, p99",
        ("p50", "p50 of one run", "raw aiohttp, log"),
    ),
    Line(
        "... by the p50 of one run",
        "many_runs",
        "... by the p50 of one run",
        ("create_agent",),
        why="all runs of a server share one event loop and one thread that writes the log; "
        "one that has left memory is read from there before its first decision",
    ),
    Line(
        "... steps per core, as fast as they go",
        "many_runs",
        "100 runs at once as fast as they go, steps per core",
        ("raw aiohttp, log", "create_agent"),
        why="each decision, call and outcome is committed, with its audit entry and its events",
    ),
    Line("Frames per second below 500 cards", "cards", "frames per second, streaming below 500 cards"),
    Line(
        "A letter typed in another cell while an answer streams, p95",
        "typing",
        "a letter in another cell while an answer streams, p95",
        ("without a run",),
    ),
    Line(
        "Tokens lost of 5,000 on the way to the page",
        "flood",
        "tokens lost of 5,000, as fast as the socket takes them",
    ),
)
PARTS = {"loop": LOOP, "felt": FELT}
"""The tables, by the names of the comments around them."""
IN_A_LINE = {(line.scenario, line.figure) for lines in PARTS.values() for line in lines}
NAMES = {
    "ours, p99": "p99",
    "raw aiohttp, log": "raw aiohttp with a log",
    "create_agent": "`create_agent`",
    "create_agent, p99": "its p99",
    "create_agent (50)": "`create_agent` after 50",
    "%load_ext in the kernel": "of it `%load_ext` in the kernel",
    "... and its end is on the page": "until the page has its end",
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.tables", description=__doc__)
    parser.add_argument("--write", action="store_true", help="put them into docs/figures.md, and the plot beside it")
    write = parser.parse_args().write
    scenarios = read_results()
    parts = {name: table(lines, scenarios) for name, lines in PARTS.items()}
    parts["measured"] = measured(scenarios)
    parts["past"] = past((*LOOP, *FELT), scenarios)
    if not write:
        print("\n\n".join(parts.values()))
        return 0
    if why := unfit(scenarios):
        print(f"{PAGE.name} is left as it is: {why}", file=sys.stderr)
        return 1
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8"), parts), encoding="utf-8")
    shutil.copy(RESULTS / "latest.svg", PLOT)
    return 0


def table(lines: Sequence[Line], scenarios: Mapping[str, Row]) -> str:
    rows = [table_line(line, scenarios[line.scenario]["figures"]) for line in lines if line.scenario in scenarios]
    return "\n".join(["| | measured | goal | floor | beside |\n| --- | --- | --- | --- | --- |", *rows])


def measured(scenarios: Mapping[str, Row]) -> str:
    runs = {f"{one['when'][:10]}, rounds: {one['rounds']}, {one['machine']}" for one in scenarios.values()}
    return f"Measured on {'; '.join(sorted(runs))}."


def unfit(scenarios: Mapping[str, Row]) -> str:
    """Why the results can't stand on the page; "" where they can."""
    missing = {line.scenario for lines in PARTS.values() for line in lines} - set(scenarios)
    if missing:
        return f"not measured: {', '.join(sorted(missing))}."
    if len({one["when"] for one in scenarios.values()}) > 1:
        return "the results are of several runs. Remove benchmarks/results and run all scenarios at once."
    return ""


def past(lines: Sequence[Line], scenarios: Mapping[str, Row]) -> str:
    """Each figure whose goal is not met, as a list: whether its floor is too, and what it is spent on."""
    found = []
    above = ""
    for line in lines:
        more = line.words.removeprefix("... ")
        words = f"{above}; {more}" if more != line.words else line.words
        above = above if more != line.words else line.words
        if line.scenario not in scenarios:
            continue
        figures = scenarios[line.scenario]["figures"]
        for figure in _judged(line.scenario, _place(line, figures), figures):
            if figure["goal"] and (judged := _verdict(figure)) != "met":
                goal = Goal(**figure["goal"])
                floor = f"; {_floor(figure, own=False)}" if figure["floor"] else ""
                value = f"{number(figure['value'])} {figure['unit']}".rstrip()
                why = f" Why: {line.why}." if line.why else ""
                found.append(f"- {words}: {value}, {goal.direction} {goal.what} wanted ({judged}{floor}).{why}")
    return "\n".join(found) or "Nothing."


def filled(text: str, parts: Mapping[str, str]) -> str:
    """The text of the page with each part between its comments."""
    for part_name, part in parts.items():
        begin, end = f"<!-- {part_name} -->", f"<!-- /{part_name} -->"
        text, found = re.subn(f"(?s){begin}.*?{end}", lambda _: f"{begin}\n{part}\n{end}", text)  # noqa: B023
        if found != 1:
            raise SystemExit(f"{PAGE.name} has {found} places for {begin} ... {end}, and one is needed.")
    return text


def table_line(line: Line, figures: Sequence[Row]) -> str:
    place = _place(line, figures)
    figure = figures[place]
    beside = "; ".join(_value(name, figure["beside"][name]) for name in line.beside if name in figure["beside"])
    value = f"{number(figure['value'])} {figure['unit']}".rstrip()
    judged = _judged(line.scenario, place, figures)
    goals = "; ".join(_goal(one, own=one is figure) for one in judged if one["goal"])
    floors = "; ".join(_floor(one, own=one is figure) for one in judged if one["floor"])
    return f"| {line.words} | {value} | {goals} | {floors} | {beside} |"


def _place(line: Line, figures: Sequence[Row]) -> int:
    return next(index for index, figure in enumerate(figures) if figure["what"] == line.figure)


def _value(name: str, value: float) -> str:
    return f"{NAMES.get(name, name.replace('->', '→'))} {number(value)}"


def _judged(scenario: str, place: int, figures: Sequence[Row]) -> list[Row]:
    """The figure, and the ratios that follow it in the table and have no line of their own."""
    judged = [figures[place]]
    for figure in figures[place + 1 :]:
        if not figure["what"].startswith("..."):
            break
        if (scenario, figure["what"]) not in IN_A_LINE:
            judged.append(figure)
    return judged


def _goal(figure: Row, *, own: bool) -> str:
    goal = Goal(**figure["goal"])
    ratio = "" if own else f": **{number(figure['value'])} {figure['unit']}".rstrip() + "**"
    return f"{goal.direction} {goal.what}{ratio} ({_verdict(figure)})"


def _verdict(figure: Row) -> str:
    return verdict(Goal(**figure["goal"]), figure["value"], Floor(**figure["floor"]) if figure["floor"] else None)


def _floor(figure: Row, *, own: bool) -> str:
    value = _value(figure["floor"]["what"], figure["floor"]["value"])
    return value if own else f"{value} {figure['unit']}".rstrip()


if __name__ == "__main__":
    sys.exit(main())
