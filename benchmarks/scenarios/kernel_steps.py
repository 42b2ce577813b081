"""A tool step in the kernel, JupyterLab with its page open, by JupyterLab's own run of an empty cell.

The cell's run is from JupyterLab's command to its end in the kernel. The page hears of that end some 40 ms later, as
Jupyter Server leaves Nagle's algorithm on for what it sends to the page; a floor with that in it would be no goal.
"""

import itertools

from benchmarks.frame import Figure, Goal, Report, median
from benchmarks.lab import LOAD, UNENDING, Stage, stage

STEPS = 20
CELLS = 10
"""Runs of the empty cell before each run of the agent, and as many after it."""
AGENT, EMPTY = 1, 2


def run(rounds: int, steps: int = STEPS) -> Report:
    took, cells = [], []
    with stage(
        f"run:nothing:{steps}:5:0", [LOAD, "%%agent --policy allow\nGo on.", "pass"], UNENDING, frames=False
    ) as on:
        on.notebook.run(0)
        for number in range(rounds + 1):
            before, during, after = _cells(on), _steps(on, steps), _cells(on)
            if number > 0:  # the first is a warm-up
                took.append(during)
                cells.append([*before, *after])
    shares = [median(one) / median([end for end, _ in floor]) for one, floor in zip(took, cells, strict=True)]
    steps_ms = sorted(itertools.chain.from_iterable(took))
    cell, seen = (median([one[place] for floor in cells for one in floor]) for place in (0, 1))
    beside = {"p90": steps_ms[len(steps_ms) * 9 // 10], "least": steps_ms[0]}
    beside |= {"JupyterLab's run of an empty cell": cell, "... and its end is on the page": seen}
    report = Report(raw={"steps": took, "cells": cells})
    report.figures += [
        Figure("a tool step in the kernel with its model request, p50", median(steps_ms), "ms", beside=beside),
        Figure("... by JupyterLab's own run of an empty cell", median(shares), "x", Goal(1.2, "1.2 times the cell's")),
    ]
    return report


def _cells(on: Stage) -> list[tuple[float, float]]:
    return [on.timed_cell(EMPTY) for _ in range(CELLS)]


def _steps(on: Stage, steps: int) -> list[float]:
    """Milliseconds from a request to the model to the next one, which has the outcome of a call in the kernel."""
    asked = len(on.model.requests())
    on.notebook.run(AGENT, wait=False)
    requests = on.wait_for_requests(asked + steps + 1)[asked:]
    on.wait_for_end()
    return [(later["ns"] - earlier["ns"]) / 1e6 for earlier, later in itertools.pairwise(requests)]
