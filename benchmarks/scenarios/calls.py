"""A call in the kernel, JupyterLab with its page open: a step of a run, and a click on Approve."""

import itertools
import time
from collections.abc import Sequence
from contextlib import ExitStack, nullcontext
from datetime import datetime
from typing import Any

from benchmarks.bare import bare_decisions, bare_kernel
from benchmarks.frame import Figure, Goal, Report, median
from benchmarks.lab import LOAD, UNENDING, Stage, stage

STEPS = 20
CELLS = 10
"""Runs of the empty cell before each run of the agent, and as many after it."""
AGENT, EMPTY = 1, 2
CLICKS = 16
"""Calls that the page approves in each round."""
LOOK_SECONDS = 0.3
HOLD_SECONDS = 0.08
_DURABLE = """async ([name, address]) => {
  const socket = new WebSocket(address);
  await new Promise(resolve => { socket.onopen = resolve; });
  const cell = document.querySelectorAll('.jp-Notebook .jp-Cell')[1];
  const button = cell.querySelector('.jp-OutputArea-output').appendChild(document.createElement('button'));
  button.textContent = name;
  button.onclick = () => {
    button.disabled = true;
    socket.send(JSON.stringify({ approved: true }));
  };
  socket.onmessage = ({ data }) => {
    button.disabled = false;
    bench.line = data;
  };
}"""
BUTTON = "Commit and run it"
Way = dict[str, float]


def kernel_steps(rounds: int, steps: int = STEPS) -> Report:
    """A tool step in the kernel with its model request, by JupyterLab's own run of an empty cell.

    The cell's run is from JupyterLab's command to its end in the kernel. The page hears of that end some 40 ms later,
    as Jupyter Server leaves Nagle's algorithm on for what it sends to the page; what it draws then is in no cell's
    time, but in that of the step after it. So steps are measured with the page held still, too.
    """
    took, cells, seen, held = [], [], [], []
    run = [LOAD, "%%agent --policy allow\nGo on.", "pass"]
    with stage(f"run:nothing:{steps}:5:0", run, UNENDING, frames=False) as on:
        on.notebook.run(0)
        for number in range(rounds + 1):
            before, during, after = _cells(on), _steps(on, steps), _cells(on)
            if number > 0:  # the first is a warm-up
                took.append(during)
                cells.append([in_kernel for in_kernel, _ in (*before, *after)])
                seen += [in_page for _, in_page in (*before, *after)]
        for _ in range(rounds):
            held += _steps(on, steps, hold=True)
    empty = [median(each) for each in cells]
    steps_ms = sorted(itertools.chain.from_iterable(took))
    beside = {"p90": steps_ms[len(steps_ms) * 9 // 10], "JupyterLab's run of an empty cell": median(empty)}
    beside["... until the page knows of its end"] = median(seen)
    beside["with the page's processes held"] = median(held)
    share = median([median(one) / cell for one, cell in zip(took, empty, strict=True)])
    what = "a tool step in the kernel with its model request, p50"
    report = Report(raw={"steps": took, "cells": cells, "seen": seen, "held": held})
    report.figures += [
        Figure(what, median(steps_ms), "ms", beside=beside),
        Figure("... by JupyterLab's own run of an empty cell", share, "x", Goal(1.5, "1.5 times the cell's")),
    ]
    return report


def _cells(on: Stage) -> list[tuple[float, float]]:
    """See `Stage.timed_cell`."""
    return [on.timed_cell(EMPTY) for _ in range(CELLS)]


def _steps(on: Stage, steps: int, *, hold: bool = False) -> list[float]:
    """Milliseconds from a request to the model to the next one, which has the outcome of a call in the kernel. With
    `hold` the browser stands still from the second request on."""
    asked = len(on.model.requests())
    on.notebook.run(AGENT, wait=False)
    first = 2 if hold else 0
    on.model.requests(asked + first, 120)
    with on.browser_held() if hold else nullcontext():
        requests = on.model.requests(asked + steps + 1, 120)[asked + first :]
    on.wait_for_end()
    return _between(requests)


def _between(requests: Sequence[dict[str, Any]]) -> list[float]:
    return [(later["ns"] - earlier["ns"]) / 1e6 for earlier, later in itertools.pairwise(requests)]


def click(rounds: int, clicks: int = CLICKS) -> Report:
    """From a click on Approve in JupyterLab to the first line of the call in the kernel.

    It alternates with a button in a cell's output whose press is committed to a file first, as an answer has
    to be (`bare_decisions`). A press begins when the browser gets the input (`event.timeStamp`). The page is idle
    before each, as it is for a person, who reads before acting.
    """
    count = clicks * rounds
    pressed, durable = [], []
    with stage(f"run:clock:{count}:5:0", [LOAD, "%%agent\nTell the time."], frames=False) as on, ExitStack() as stack:
        on.notebook.run_through(AGENT)
        kernel = stack.enter_context(bare_kernel(on.lab, on.kernel_id()))
        address = stack.enter_context(bare_decisions(kernel, on.lab.home / "answers.sqlite"))
        on.look_with(_DURABLE, [BUTTON, address])
        for number in range(count):
            # The previous call has ended and nothing else runs.
            on.notebook.wait_for_state("awaiting_approval", card=number)
            on.look("() => { bench.line = ''; }")
            at = _press(on, on.notebook.page, BUTTON)
            on.wait("() => bench.line")
            durable.append(int(kernel.told(str(on.look("() => bench.line")))) / 1e6 - at)
            pressed.append(_press(on, on.notebook.card(number), "Approve"))
        calls = on.wait_for_end()["tool_calls"]
    ways = [_way(call, at) for call, at in zip(calls, pressed, strict=True)]
    waits = sorted(way["in all"] for way in ways)
    beside = {"p90": waits[len(waits) * 9 // 10], "least": waits[0]}
    beside |= {part: median([way[part] for way in ways]) for part in ways[0] if part != "in all"}
    bare = median(durable)
    beside["a bare button whose press is committed to a file before the kernel is asked"] = bare
    report = Report(raw={"click": ways, "durable buttons": durable})
    report.figures += [
        Figure("click -> the call runs in the kernel, p50", median(waits), "ms", Goal(20, "20 ms"), beside),
        Figure("... by a bare button's, committed", median(waits) / bare, "x", Goal(2, "twice a bare button's")),
    ]
    return report


def _press(on: Stage, place: Any, button: str) -> float:
    """The time at which the browser got a click on a button, in milliseconds since the epoch."""
    time.sleep(LOOK_SECONDS)
    place.get_by_role("button", name=button, exact=True).click(delay=HOLD_SECONDS * 1000)
    return float(on.look("() => bench.clicks.at(-1)"))


def _way(call: dict[str, Any], begun: float) -> Way:
    """The parts of the time, from the log's timestamps and the call's output."""
    decided, started = (datetime.fromisoformat(call[name]).timestamp() * 1e3 for name in ("decided_at", "started_at"))
    runs = int("".join(output["text"] for output in call["outputs"])) / 1e6
    return {
        "in all": runs - begun,
        "to the decision in the log": decided - begun,
        "to the start in the log": started - decided,
        "to the kernel": runs - started,
    }
