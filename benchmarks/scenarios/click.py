"""From a click on Approve in JupyterLab to the first line of the call in the kernel.

It alternates with JupyterLab's own way from Ctrl+Enter to the first line of a cell, with a bare client of the channel,
and with three floors: a bare request to the kernel over the server's WebSocket, a button in the same page that does
nothing but send one, and a button in a cell's output whose press is committed to a file first, as an answer has to be
(`bare_decisions`). A press begins when the browser gets the input (`event.timeStamp`), a client's decision when it is
sent. The page is idle before each, as it is for a person, who reads before acting.
"""

import time
from collections.abc import Sequence
from contextlib import ExitStack
from datetime import datetime
from typing import Any

from benchmarks.bare import bare_decisions, bare_kernel
from benchmarks.frame import Figure, Floor, Goal, Report, median
from benchmarks.lab import LOAD, Stage, stage
from tests.e2e.lab import wait_until

LOOK_SECONDS = 0.3
HOLD_SECONDS = 0.08
CLOCK = "import time\nprint(time.time_ns())"
CELL = 2
CLICKS = 8
"""Calls that the page approves in each round; as many are approved by the bare client."""
_DIAL = """async id => {
  const { baseUrl } = JSON.parse(document.getElementById('jupyter-config-data').textContent);
  const address = new URL(`${baseUrl}agent-kernel/api/conversations/${id}/channel`, location.href);
  address.protocol = 'ws';
  bench.client = new WebSocket(address);
  await new Promise(resolve => { bench.client.onopen = resolve; });
}"""
_DECIDE = """async approval_id => {
  const { client } = bench;
  const ended = new Promise(resolve => {
    client.addEventListener('message', ({ data }) => JSON.parse(data).type === 'tool_complete' && resolve());
  });
  const sent = performance.timeOrigin + performance.now();
  client.send(JSON.stringify({ type: 'approval_response', approval_id, approved: true }));
  await ended;
  client.close();
  return sent;
}"""
_EXECUTE = """async code => {
  const { kernel } = window.jupyterapp.shell.currentWidget.sessionContext.session;
  const sent = performance.timeOrigin + performance.now();
  const future = kernel.requestExecute({ code, store_history: false });
  let text = '';
  future.onIOPub = ({ content }) => { text += content.text ?? ''; };
  await future.done;
  return [sent, text];
}"""
_BUTTON = """([name, code]) => {
  const { kernel } = window.jupyterapp.shell.currentWidget.sessionContext.session;
  const button = document.body.appendChild(document.createElement('button'));
  button.textContent = name;
  button.style.cssText = 'position: fixed; right: 40px; bottom: 40px; z-index: 10000';
  button.onclick = async () => {
    const future = kernel.requestExecute({ code, store_history: false });
    let text = '';
    future.onIOPub = ({ content }) => { text += content.text ?? ''; };
    await future.done;
    bench.line = text;
  };
}"""
BUTTON = "Run it, barely"
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
DURABLE_BUTTON = "Commit and run it"
Way = dict[str, float]


def run(rounds: int, clicks: int = CLICKS) -> Report:
    count = 2 * clicks * rounds
    pressed: dict[int, float] = {}
    sent: dict[int, float] = {}
    cells, requests, buttons, durable = [], [], [], []
    with (
        stage(f"run:clock:{count}:5:0", [LOAD, "%%agent\nTell the time.", CLOCK], frames=False) as on,
        ExitStack() as stack,
    ):
        on.notebook.run_through(CELL)
        kernel = stack.enter_context(bare_kernel(on.lab, on.kernel_id()))
        address = stack.enter_context(bare_decisions(kernel, on.lab.home / "answers.sqlite"))
        on.look_with(_DURABLE, [DURABLE_BUTTON, address])
        on.look_with(_BUTTON, [BUTTON, CLOCK])
        for number in range(count):
            # The previous call has ended and nothing else runs.
            on.notebook.wait_for_state("awaiting_approval", card=number)
            cells.append(_run_cell(on))
            requests.append(_execute(on))
            at, line = _press_bare(on, BUTTON)
            buttons.append(int(line) / 1e6 - at)
            at, request = _press_bare(on, DURABLE_BUTTON)
            durable.append(int(kernel.told(request)) / 1e6 - at)
            if number % 2:
                pressed[number] = _approve(on, number)
            else:
                sent[number] = _decide(on)
        calls = on.wait_for_end()["tool_calls"]
    page = [_way(calls[number], at) for number, at in pressed.items()]
    client = [_way(calls[number], at) for number, at in sent.items()]
    bare = {"cells": cells, "requests": requests, "buttons": buttons, "durable buttons": durable}
    report = Report(raw={"click": page, "client": client, **bare})
    waits, sends = (sorted(way["in all"] for way in ways) for ways in (page, client))
    report.figures += [
        Figure(
            "click -> the call runs in the kernel, p50",
            median(waits),
            "ms",
            Goal(20, "20 ms"),
            {
                "p90": waits[len(waits) * 9 // 10],
                "least": waits[0],
                "JupyterLab's Ctrl+Enter -> cell": median(cells),
                "a bare button that only sends a request to the kernel": median(buttons),
            }
            | _parts(page),
            floor=Floor(median(durable), "a bare button whose press is committed to a file before the kernel is asked"),
        ),
        Figure(
            "... by a bare button's, committed", median(waits) / median(durable), "x", Goal(2, "twice a bare button's")
        ),
        Figure(
            "a bare client's decision -> the call runs in the kernel, p50",
            median(sends),
            "ms",
            beside={"least": sends[0]} | _parts(client),
            floor=Floor(median(requests), "a bare request to the kernel -> its first line"),
        ),
    ]
    return report


def _parts(ways: Sequence[Way]) -> Way:
    return {part: median([way[part] for way in ways]) for part in ways[0] if part != "in all"}


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


def _decide(on: Stage) -> float:
    """The time at which the bare client sent its decision, in milliseconds since the epoch. It is there only meanwhile:
    a person's page has no second line to the conversation."""
    conversation = on.conversation()
    (waiting,) = [call for call in conversation["tool_calls"] if call["state"] == "awaiting_approval"]
    on.look_with(_DIAL, conversation["conversation_id"])
    time.sleep(LOOK_SECONDS)
    sent: float = on.look_with(_DECIDE, waiting["approval_id"])
    return sent


def _execute(on: Stage) -> float:
    """Milliseconds from a request to the kernel, past JupyterLab's notebook, to its first line."""
    time.sleep(LOOK_SECONDS)
    sent, text = on.look_with(_EXECUTE, CLOCK)
    return int(text) / 1e6 - float(sent)


def _press_bare(on: Stage, button: str) -> tuple[float, str]:
    """The time at which the browser got a click on a bare button, in milliseconds since the epoch, and what it led
    to."""
    time.sleep(LOOK_SECONDS)
    on.look("() => { bench.line = ''; }")
    on.notebook.page.get_by_role("button", name=button, exact=True).click(delay=HOLD_SECONDS * 1000)
    on.wait("() => bench.line")
    return float(on.look("() => bench.clicks.at(-1)")), str(on.look("() => bench.line"))


def _approve(on: Stage, number: int) -> float:
    """The time at which the browser got the click, in milliseconds since the epoch."""
    time.sleep(LOOK_SECONDS)
    button = on.notebook.card(number).get_by_role("button", name="Approve", exact=True)
    button.click(delay=HOLD_SECONDS * 1000)
    clicked: float = on.look("() => bench.clicks.at(-1)")
    return clicked


def _run_cell(on: Stage) -> float:
    """Milliseconds from the key to the cell's first line."""
    before = on.notebook.text(CELL)
    on.notebook.page.locator(".jp-Notebook .jp-Cell").nth(CELL).locator(".cm-content").click()
    time.sleep(LOOK_SECONDS)
    on.notebook.page.keyboard.press("Control+Enter")

    def printed() -> str:
        text = on.notebook.text(CELL)
        return text if text != before else ""

    line = int(wait_until(printed, "the cell's line")) / 1e6
    pressed: float = on.look("() => bench.enters.at(-1)")
    return line - pressed
