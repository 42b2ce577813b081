"""From a click on Approve in JupyterLab to the first line of the call in the kernel."""

from benchmarks.frame import Figure, Goal, Report, median
from benchmarks.lab import LOAD, Stage, stage

CALLS = 30


def run(rounds: int) -> Report:  # noqa: ARG001
    with stage(f"run:clock:{CALLS}:5:0", [LOAD, "%%agent\nTell the time."]) as on:
        on.notebook.run_through(1)
        for number in range(CALLS):
            _approve(on, number)
        view = on.wait_for_end()
        clicks: list[float] = on.look("() => bench.clicks")
    printed = ["".join(output["text"] for output in call["outputs"]) for call in view["tool_calls"]]
    waits = [int(text) / 1e6 - clicked for text, clicked in zip(printed, clicks[-CALLS:], strict=True)]
    waits.sort()
    report = Report(raw={"ms": waits})
    report.figures.append(
        Figure(
            "click -> the call runs in the kernel, p50",
            median(waits),
            "ms",
            Goal(15, "15 ms"),
            {"p90": waits[len(waits) * 9 // 10], "least": waits[0]},
        )
    )
    return report


def _approve(on: Stage, number: int) -> None:
    on.notebook.wait_for_state("awaiting_approval", card=number)
    on.notebook.press("Approve", card=number)
