"""A save of the notebook while a run of 200 calls goes on, by the same notebook's save without a run.

The floor is a save after the run: the file with the same record, and nothing else that the server has to do.
"""

from benchmarks.frame import Figure, Floor, Goal, Report, median
from benchmarks.lab import LOAD, UNENDING, Stage, stage

CALLS = 200
SAVES = 15
"""Saves of each kind in each round: one takes 35 ms or 90, as JupyterLab's page happens to be idle or not."""
MICROS = 300_000
"""Between two calls from then on: as a model does, the run goes on while the notebook is saved."""
AGENT = 1


def run(rounds: int, calls: int = CALLS) -> Report:
    plain, during, after = [], [], []
    some = max(1, min(3, rounds - 1))  # two hundred calls a round
    with stage(f"endless:lines:{calls}:{MICROS}", [LOAD, "%%agent --policy allow\nGo on."], UNENDING) as on:
        on.notebook.run(0)
        on.timed("docmanager:save")  # a warm-up
        for _ in range(some):
            on.notebook.command("notebook:clear-all-cell-outputs")
            plain += _saves(on)
            _begin(on, calls)
            during += [_save_after_a_call(on) for _ in range(SAVES)]
            on.notebook.page.get_by_role("button", name="Stop", exact=True).first.click()
            on.wait_for_end()
            on.notebook.record().wait_for()
            after += _saves(on)
    report = Report(raw={"without a run": plain, "during a run": during, "with its record": after})
    recorded = median(after)
    beside = {"without a run": median(plain), "with its record, after the run": recorded, "longest": max(during)}
    report.figures += [
        Figure(f"a save while a run with {calls} calls goes on", median(during), "ms", beside=beside),
        Figure(
            "... by a save without a run",
            median(during) / median(plain),
            "x",
            Goal(2, "twice that"),
            floor=Floor(recorded / median(plain), "with its record, after the run"),
        ),
        Figure("... by a save with its record, after the run", median(during) / recorded, "x"),
    ]
    return report


def _saves(on: Stage) -> list[float]:
    return [on.timed("docmanager:save") for _ in range(SAVES)]


def _begin(on: Stage, calls: int) -> None:
    """A run that has made its calls, and goes on."""
    asked = len(on.model.requests())
    on.notebook.run(AGENT, wait=False)
    on.wait_for_requests(asked + calls + 1, 180)
    on.wait(f"() => bench.cards() >= {calls}")


def _save_after_a_call(on: Stage) -> float:
    """The run is another one than at the save before."""
    on.wait_for_requests(len(on.model.requests()) + 1)
    return on.timed("docmanager:save")
