"""From a click on Approve in JupyterLab to the first line of the call in the kernel."""

from benchmarks.frame import Figure, Goal, Report, median
from benchmarks.lab import LOAD, Stage, stage

CALLS = 30
CELL_RUNS = 10
PRINT_TIME = "import time\nprint(time.time_ns())"

RUN_LAST_CELL = """async () => {
  const { shell, commands } = window.jupyterapp;
  shell.currentWidget.content.activeCellIndex = 2;
  const begun = performance.timeOrigin + performance.now();
  await commands.execute('notebook:run-cell');
  return begun;
}"""


def run(rounds: int) -> Report:  # noqa: ARG001
    with stage(f"run:clock:{CALLS}:5:0", [LOAD, "%%agent\nTell the time.", PRINT_TIME]) as on:
        on.notebook.run_through(1)
        for number in range(CALLS):
            _approve(on, number)
        view = on.wait_for_end()
        clicks: list[float] = on.look("() => bench.clicks")
        cells = [_cell(on) for _ in range(CELL_RUNS)]
    printed = ["".join(output["text"] for output in call["outputs"]) for call in view["tool_calls"]]
    waits = [int(text) / 1e6 - clicked for text, clicked in zip(printed, clicks[-CALLS:], strict=True)]
    waits.sort()
    report = Report(raw={"ms": waits, "cells": cells})
    report.figures.append(
        Figure(
            "click -> the call runs in the kernel, p50",
            median(waits),
            "ms",
            Goal(15, "15 ms"),
            {
                "p90": waits[len(waits) * 9 // 10],
                "least": waits[0],
                "JupyterLab's own way to run a cell, p50": median(cells),
            },
        )
    )
    return report


def _approve(on: Stage, number: int) -> None:
    on.notebook.wait_for_state("awaiting_approval", card=number)
    on.notebook.press("Approve", card=number)


def _cell(on: Stage) -> float:
    """Milliseconds from JupyterLab's command that runs a cell to the cell's first line: the floor of any click."""
    begun: float = on.look(RUN_LAST_CELL)
    return int(on.notebook.text(2)) / 1e6 - begun
