"""From a click on Approve in JupyterLab to the first line of the call in the kernel.

It alternates with JupyterLab's own way from Ctrl+Enter to the first line of a cell. Both begin when the browser gets
the input (`event.timeStamp`). The page is idle before each press, as it is for a person, who reads before acting.
"""

import time
from datetime import datetime
from typing import Any

from benchmarks.frame import Figure, Goal, Report, median
from benchmarks.lab import LOAD, Stage, stage
from tests.e2e.lab import wait_until

LOOK_SECONDS = 0.3
HOLD_SECONDS = 0.08
CLOCK = "import time\nprint(time.time_ns())"
CELL = 2


def run(rounds: int) -> Report:
    calls = 6 * rounds
    clicks, cells = [], []
    with stage(f"run:clock:{calls}:5:0", [LOAD, "%%agent\nTell the time.", CLOCK]) as on:
        on.notebook.run_through(CELL)
        for number in range(calls):
            # The previous call has ended and nothing else runs.
            on.notebook.wait_for_state("awaiting_approval", card=number)
            cells.append(_run_cell(on))
            clicks.append(_approve(on, number))
        view = on.wait_for_end()
    ways = [_way(call, clicked) for call, clicked in zip(view["tool_calls"], clicks, strict=True)]
    waits = sorted(way.pop("in all") for way in ways)
    report = Report(raw={"ms": waits, "parts": ways, "cells": cells})
    beside = {"p90": waits[len(waits) * 9 // 10], "least": waits[0], "JupyterLab's Ctrl+Enter -> cell": median(cells)}
    beside |= {part: median([way[part] for way in ways]) for part in ways[0]}
    report.figures += [
        Figure("click -> the call runs in the kernel, p50", median(waits), "ms", Goal(15, "15 ms"), beside),
        Figure("... by JupyterLab's own run of a cell", median(waits) / median(cells), "x"),
    ]
    return report


def _way(call: dict[str, Any], clicked: float) -> dict[str, float]:
    """The parts of the time, from the log's timestamps and the call's output."""
    decided, started = (datetime.fromisoformat(call[name]).timestamp() * 1e3 for name in ("decided_at", "started_at"))
    runs = int("".join(output["text"] for output in call["outputs"])) / 1e6
    return {
        "in all": runs - clicked,
        "to the decision in the log": decided - clicked,
        "to the start in the log": started - decided,
        "to the kernel": runs - started,
    }


def _approve(on: Stage, number: int) -> float:
    """The time at which the browser got the click, in milliseconds since the epoch."""
    time.sleep(LOOK_SECONDS)
    button = on.notebook.card(number).get_by_role("button", name="Approve", exact=True)
    button.click(delay=HOLD_SECONDS * 1000)
    clicked: float = on.look("() => bench.clicks.at(-1)")
    return clicked


def _run_cell(on: Stage) -> float:
    """Milliseconds from the key to the cell's first line."""
    before = on.notebook.text(CELL)
    on.notebook.page.locator(".jp-Notebook .jp-Cell").nth(CELL).locator(".cm-content").click()
    time.sleep(LOOK_SECONDS)
    on.notebook.page.keyboard.press("Control+Enter")

    def printed() -> str:
        text = on.notebook.text(CELL)
        return text if text != before else ""

    line = int(wait_until(printed, "the cell's line")) / 1e6
    pressed: float = on.look("() => bench.enters.at(-1)")
    return line - pressed
