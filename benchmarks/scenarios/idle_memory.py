"""Resident memory of a server whose user runs cells and no agent, with the extension and without it, in turns."""

import time

from benchmarks.frame import Figure, Goal, Report, median
from benchmarks.lab import stage

SETTLED_SECONDS = 3.0
"""A server that has grown by less than `NOISE` in this time has done what it does in the background."""
NOISE = 256 * 1024
MOST_SECONDS = 30.0


def run(rounds: int, settled: float = SETTLED_SECONDS) -> Report:
    found: dict[bool, list[float]] = {True: [], False: []}
    for number in range(_few(rounds)):
        for extension in (True, False) if number % 2 else (False, True):
            found[extension].append(_idle(settled, extension=extension))
    more = median([ours - plain for ours, plain in zip(found[True], found[False], strict=True)])
    report = Report(raw={"with the extension": found[True], "without": found[False]})
    report.figures.append(
        Figure(
            "memory that the extension adds to an idle server",
            more,
            "MB",
            Goal(30, "30 MB"),
            {"with it": median(found[True]), "without": median(found[False])},
        )
    )
    return report


def _few(rounds: int) -> int:
    """Each measurement starts a server, so three of each are the most."""
    return max(1, min(3, rounds - 1))


def _idle(settled: float, *, extension: bool) -> float:
    """Megabytes once a notebook was opened and a cell was run, and the server has come to rest."""
    with stage("text:5", ["1 + 1"], extension=extension) as on:
        on.notebook.run(0)
        deadline = time.monotonic() + MOST_SECONDS
        memory, grown = 0, NOISE
        while grown >= NOISE and time.monotonic() < deadline:
            time.sleep(settled)
            memory, grown = on.server_memory(), on.server_memory() - memory
    return memory / 1e6
