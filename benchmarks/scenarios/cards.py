"""A page with 500 finished calls in one run: its first paint after a reload, and its frames while an answer streams."""

import itertools

from benchmarks.frame import Figure, Goal, Report, median
from benchmarks.lab import LOAD, stage

CALLS = 500
SECONDS = 4.0
BUDGET = "--AgentKernelServer.default_budget={'steps': 10000}"


def run(rounds: int) -> Report:  # noqa: ARG001
    cells = [LOAD, "%%agent --policy allow\nGo on and on."]
    with stage(f"run:nothing:{CALLS}:10000:4000", cells, [BUDGET]) as on:
        on.notebook.run_through(1)
        requests = on.wait_for_requests(CALLS + 1, 180)
        on.notebook.save()
        on.notebook.page.reload()
        on.wait("() => bench.firstCard")
        on.wait(f"() => bench.cards() >= {CALLS} && bench.answer()")
        first = on.look("() => bench.firstCard")
        before = on.look("() => bench.frames.length")
        on.notebook.page.wait_for_timeout(SECONDS * 1000)
        frames = on.look("() => bench.frames")[before:]
        on.notebook.page.get_by_role("button", name="Stop", exact=True).first.click()
        on.wait_for_end()
    pauses = sorted(later - earlier for earlier, later in itertools.pairwise(frames))
    steps = (requests[CALLS]["ns"] - requests[0]["ns"]) / 1e6 / CALLS
    report = Report(raw={"pauses": pauses})
    report.figures += [
        Figure("a reload with 500 cards -> the first is painted", first / 1e3, "s"),
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
