"""A tool step in the kernel, JupyterLab with its page open, by JupyterLab's own run of an empty cell.

The floor is a bare loop's step: it asks the model and runs the call in the same kernel over ZeroMQ, while the page is
open, and has no log, no approvals and no cards. The cell's run is from JupyterLab's command to its end in the kernel.
The page hears of that end some 40 ms later, as Jupyter Server leaves Nagle's algorithm on for what it sends to the
page; a floor with that in it would be no goal.
"""

import itertools
from collections.abc import Sequence
from typing import Any

from benchmarks.bare import BareKernel, bare_kernel
from benchmarks.frame import Figure, Floor, Goal, Report, median
from benchmarks.lab import LOAD, UNENDING, Stage, stage

STEPS = 20
CELLS = 10
"""Runs of the empty cell before each run of the agent, and as many after it."""
AGENT, EMPTY = 1, 2


def run(rounds: int, steps: int = STEPS) -> Report:
    took, bare, cells = [], [], []
    model = f"run:nothing:{steps}:5:0"
    with stage(model, [LOAD, "%%agent --policy allow\nGo on.", "pass"], UNENDING, frames=False) as on:
        on.notebook.run(0)
        with bare_kernel(on.lab, on.kernel_id()) as kernel:
            for number in range(rounds + 1):
                before, during, floor, after = _cells(on), _steps(on, steps), _bare(on, kernel, model), _cells(on)
                if number > 0:  # the first is a warm-up
                    took.append(during)
                    bare.append(floor)
                    cells.append([*before, *after])
    empty = [median([end for end, _ in each]) for each in cells]
    steps_ms = sorted(itertools.chain.from_iterable(took))
    cell, seen = (median([one[place] for each in cells for one in each]) for place in (0, 1))
    beside = {"p90": steps_ms[len(steps_ms) * 9 // 10], "least": steps_ms[0]}
    beside |= {"JupyterLab's run of an empty cell": cell, "... and its end is on the page": seen}
    report = Report(raw={"steps": took, "bare": bare, "cells": cells})
    report.figures += [
        Figure(
            "a tool step in the kernel with its model request, p50",
            median(steps_ms),
            "ms",
            beside=beside,
            floor=Floor(median(list(itertools.chain.from_iterable(bare))), "a bare loop's step in the same kernel"),
        ),
        Figure(
            "... by JupyterLab's own run of an empty cell",
            _share(took, empty),
            "x",
            Goal(1.5, "1.5 times the cell's"),
            floor=Floor(_share(bare, empty), "a bare loop's"),
        ),
    ]
    return report


def _share(steps: Sequence[Sequence[float]], empty: Sequence[float]) -> float:
    return median([median(one) / cell for one, cell in zip(steps, empty, strict=True)])


def _cells(on: Stage) -> list[tuple[float, float]]:
    return [on.timed_cell(EMPTY) for _ in range(CELLS)]


def _steps(on: Stage, steps: int) -> list[float]:
    """Milliseconds from a request to the model to the next one, which has the outcome of a call in the kernel."""
    asked = len(on.model.requests())
    on.notebook.run(AGENT, wait=False)
    requests = on.wait_for_requests(asked + steps + 1)[asked:]
    on.wait_for_end()
    return _between(requests)


def _bare(on: Stage, kernel: BareKernel, model: str) -> list[float]:
    asked = len(on.model.requests())
    kernel.go_on(on.model, model)
    return _between(on.model.requests()[asked:])


def _between(requests: Sequence[dict[str, Any]]) -> list[float]:
    return [(later["ns"] - earlier["ns"]) / 1e6 for earlier, later in itertools.pairwise(requests)]
