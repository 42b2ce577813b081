"""A page with many finished calls in one run: its paint after a reload, and its frames while an answer streams."""

import itertools

from benchmarks.frame import Figure, Goal, Report, Series, median
from benchmarks.lab import LOAD, Stage, stage
from benchmarks.scenarios.growth import LINEAR, exponent

CALLS = (62, 125, 250, 500)
SECONDS = 4.0
UNENDING = ("--AgentKernelServer.default_budget={'steps': 10000}", "--AgentKernelServer.pause_at_repeats=False")
"""The same call, 500 times."""


def run(rounds: int) -> Report:  # noqa: ARG001
    cells = [LOAD, *(f"%%agent --policy allow --model {_model(calls)}\nGo on and on." for calls in CALLS)]
    report = Report()
    drawn: list[float] = []
    with stage(_model(CALLS[-1]), cells, UNENDING) as on:
        for index, calls in enumerate(CALLS):
            asked = len(on.model.requests())
            if index == 0:
                on.notebook.run_through(1)
            else:
                on.notebook.run(index + 1, wait=False)
            requests = on.wait_for_requests(asked + calls + 1, 180)[asked:]
            drawn.append(_reload(on, calls))
            if calls == CALLS[-1]:
                first = on.look("() => bench.firstCard")
                pauses = _pauses(on)
            on.notebook.page.get_by_role("button", name="Stop", exact=True).first.click()
            on.wait_for_end()
    steps = (requests[CALLS[-1]]["ns"] - requests[0]["ns"]) / 1e6 / CALLS[-1]
    report.raw = {"pauses": pauses}
    painting = Series("painting cards after their snapshot", CALLS, drawn, "ms")
    report.series.append(painting)
    report.figures += [
        Figure("a reload with 500 cards -> the first is painted", first / 1e3, "s"),
        Figure(
            "the snapshot of 500 cards -> all are painted",
            drawn[-1],
            "ms",
            beside={f"ms of {calls}": one for calls, one in zip(CALLS[:-1], drawn[:-1], strict=True)},
        ),
        Figure(f"growth of {painting.what}", exponent(painting), "", LINEAR),
        Figure(
            "frames per second, streaming below 500 cards",
            len(pauses) / SECONDS,
            "1/s",
            Goal(30, "30 a second", "at least"),
            {"pause p50 ms": median(pauses), "longest ms": pauses[-1]},
        ),
        Figure("a call in the kernel and its model request, of 500", steps, "ms"),
    ]
    return report


def _model(calls: int) -> str:
    """The script: this many calls, then a very long answer."""
    return f"run:nothing:{calls}:10000:4000"


def _reload(on: Stage, calls: int) -> float:
    """Reload the page. Milliseconds from the conversation's snapshot to the paint of all cards."""
    on.notebook.save()
    on.notebook.page.reload()
    on.wait(f"() => bench.cards() >= {calls} && bench.answer()")
    drawn = {int(cards): at for cards, at in on.look("() => bench.drawn").items()}
    painted: float = min(at for cards, at in drawn.items() if cards >= calls)
    return painted - float(on.look("() => bench.session"))


def _pauses(on: Stage) -> list[float]:
    """Milliseconds between two frames while the answer streams, the shortest first."""
    before = on.look("() => bench.frames.length")
    on.notebook.page.wait_for_timeout(SECONDS * 1000)
    frames = on.look("() => bench.frames")[before:]
    return sorted(later - earlier for earlier, later in itertools.pairwise(frames))
