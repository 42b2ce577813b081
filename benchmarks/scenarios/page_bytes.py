"""What each `%%agent` sends to the page: on the kernel's WebSocket, on the channel, and by HTTP."""

from benchmarks.frame import Figure, Floor, Goal, Report, median
from benchmarks.lab import LOAD, Stage, stage

LIMIT = Goal(50, "50 kB")
SETTLE = 500
"""Milliseconds after a run's end in which what belongs to it may still come."""
CLOSED = 4_000
"""Milliseconds after which a page whose run has become a record has closed its channel."""


def run(rounds: int) -> Report:
    """Each round is a prompt in a cell of its own, and an empty cell, whose bytes are JupyterLab's. Told apart are the
    first prompt, which may fetch what is cached from then on, and one that comes late: its page connects again, and
    gets the conversation so far."""
    cells = [LOAD, *["%%agent\nSay it.", "pass"] * (rounds + 1), "%%agent\nSay it."]
    with stage("text:5", cells, frames=False) as on:
        on.notebook.run(0)
        received = [_received(on, cell) for cell in range(1, len(cells) - 1)]
        on.notebook.page.wait_for_timeout(CLOSED)
        late = _received(on, len(cells) - 1)
    (first, *others), empty = received[::2], received[1::2]
    report = Report(raw={"first": first, "others": others, "late": late, "empty cells": empty})
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
        Figure("... what one sends that comes late", sum(late.values()), "kB", beside=late),
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
