"""What each `%%agent` sends to the page: on the kernel's WebSocket, on the channel, and by HTTP."""

from benchmarks.frame import Figure, Floor, Goal, Report, median
from benchmarks.lab import LOAD, Stage, stage

LIMIT = Goal(10, "10 kB")
SETTLE = 500
"""Milliseconds after a run's end in which what belongs to it may still come."""


def run(rounds: int) -> Report:
    """Each round is a prompt in a cell of its own, and an empty cell, whose bytes are JupyterLab's. The first prompt,
    which may fetch what is cached from then on, is told apart."""
    cells = [LOAD, *["%%agent\nSay it.", "pass"] * (rounds + 1)]
    with stage("text:5", cells, frames=False) as on:
        on.notebook.run(0)
        received = [_received(on, cell) for cell in range(1, len(cells))]
    (first, *others), empty = received[::2], received[1::2]
    report = Report(raw={"first": first, "others": others, "empty cells": empty})
    each = {way: median([one[way] for one in others]) for way in first}
    floor = median([sum(one.values()) for one in empty])
    report.figures += [
        Figure(
            "what each %%agent sends to the page",
            sum(each.values()),
            "kB",
            LIMIT,
            each,
            Floor(floor, "JupyterLab's run of an empty cell"),
        ),
        Figure("... what the first one in a page sends", sum(first.values()), "kB", beside=first),
    ]
    return report


def _received(on: Stage, cell: int) -> dict[str, float]:
    """Kilobytes by the way that they took, over the whole run of a cell."""
    before = on.received()
    on.notebook.run(cell)
    on.notebook.record().nth((cell - 1) // 2).wait_for()
    on.notebook.page.wait_for_timeout(SETTLE)
    return {way: (size - before[way]) / 1e3 for way, size in on.received().items()}
