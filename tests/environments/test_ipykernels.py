"""No server: the runtime in the kernel, its cards over the widget's messages, on each ipykernel that is taken.

The page is simulated at the level of Jupyter's messages. It says what JupyterLab says, on the channels it uses.
"""

from pathlib import Path
from typing import Any

import pytest

from tests.environments.embedded import START, approve
from tests.notebooks.kernel import TestKernel
from tests.notebooks.page import Page

pytestmark = [pytest.mark.kernel, pytest.mark.soak]


def seqs(frames: list[dict[str, Any]]) -> list[int]:
    return [frame["seq"] for frame in frames]


def test_a_click_counts_while_a_cell_runs_that_waits_for_no_run(kernel: TestKernel, tmp_path: Path) -> None:
    page = Page(kernel)
    kernel.run(START, allow_stdin=True)
    page.open()
    gate = tmp_path / "gate"
    busy = kernel.send(f"import os, time\nwhile not os.path.exists({str(gate)!r}): time.sleep(0.02)", allow_stdin=True)
    approve(page)
    page.event("approval_response")
    gate.touch()
    kernel.result(busy)
    assert page.event("complete")["finish_reason"] == "stop"


def test_stop_ends_a_call_that_runs(kernel: TestKernel) -> None:
    code = "import time\\nprint('asleep', flush=True)\\ntime.sleep(600)\\nprint('awake')"
    kernel.run(f'model = ScriptedModel([call("run_python", code="{code}"), say("Done.")])')
    page = Page(kernel)
    kernel.run(START, allow_stdin=True)
    page.open()
    approve(page)
    page.event("tool_output")
    page.send(type="cancel", run_id=page.event("approval_request")["run_id"])
    assert kernel.value("run.wait(40).status") == "'cancelled'"
    assert "awake" not in kernel.run("print(run.tool_calls[0].result)").streams()


def test_what_a_page_missed_is_sent_again(kernel: TestKernel) -> None:
    page = Page(kernel)
    kernel.run(START, allow_stdin=True)
    page.open()
    page.event("approval_request")
    before = len(page.frames)
    page.resume(2)
    page.until(lambda: len(page.frames) >= 2 * before - 2)
    assert seqs(page.frames[before:])[: before - 2] == seqs(page.frames[2:before])
    approve(page)
    page.record()
    assert kernel.value("run.wait(40).status") == "'complete'"


def test_pages_hear_nothing_of_a_servers_requests(kernel: TestKernel) -> None:
    kernel.run('__import__("agent_kernel.notebook", fromlist=["install"]).install()')
    assert kernel.states_around_a_request() == ["busy execute_request", "execute_input", "idle execute_request"]


AGAIN_WAITS = {"wait": "run.wait()", "await": "await run", "between cells": "None"}
FIRST = "first = run = ak.Agent(model=model).start('The first.'); held = "
AGAIN = "run = ak.Agent(model=ScriptedModel([say('fine')])).start('Again.')\nheld = "


@pytest.mark.parametrize("waits", AGAIN_WAITS.values(), ids=AGAIN_WAITS)
def test_a_cell_that_is_run_again_while_it_waits_gives_way_to_its_next_run(kernel: TestKernel, waits: str) -> None:
    page = Page(kernel, "The first.")
    first = kernel.send_cell("a", FIRST + waits, allow_stdin=True)
    if waits == "None":  # ipykernel 7.0 may pass by a message that comes while it replies (ipython/ipykernel#1529)
        kernel.result(first)
    page.open()
    page.event("approval_request")
    other = kernel.send_cell("b", "'the cell between'")
    again = kernel.send_cell("a", AGAIN + waits, allow_stdin=True)
    for cell in (first, other, again):
        assert kernel.result(cell).reply["status"] == "ok"
    assert kernel.result(other).value == "'the cell between'"
    assert kernel.value("first.wait(40).status, run.wait(40).status, run.text") == "('cancelled', 'complete', 'fine')"
    assert kernel.value("[(call.state, call.reason) for call in first.tool_calls]") == (
        "[('superseded', 'Its cell was run again.')]"
    )
