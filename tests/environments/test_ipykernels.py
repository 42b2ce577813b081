"""No server: the runtime in the kernel, its cards over the widget's messages, on each ipykernel that is taken.

The page is simulated at the level of Jupyter's messages. It says what JupyterLab says, on the channels it uses.
"""

import time
from pathlib import Path
from typing import Any

import pytest

from tests.environments.embedded import START, approve
from tests.notebooks.kernel import TestKernel
from tests.notebooks.page import Page

pytestmark = [pytest.mark.kernel, pytest.mark.soak]


def seqs(frames: list[dict[str, Any]]) -> list[int]:
    return [frame["seq"] for frame in frames]


def test_a_card_is_answered_between_cells(kernel: TestKernel) -> None:
    page = Page(kernel)
    kernel.run(START, allow_stdin=True)
    page.open()
    approve(page)
    assert page.event("complete")["finish_reason"] == "stop"
    assert kernel.value("run.wait(40).text, x") == "('It is **42**.', 42)"


def test_a_page_that_answers_late_finds_its_card_still_open(kernel: TestKernel) -> None:
    """The user's next cell is long. Where the kernel hears nothing meanwhile, that is no sign that no page is there."""
    kernel.run("import agent_kernel.notebook.hosts.embedded as embedded\nembedded.CLIENT_SECONDS = 6.0")
    page = Page(kernel)
    kernel.send(START, allow_stdin=True)
    busy = kernel.send("import time; time.sleep(9)", allow_stdin=True)
    page.open()
    kernel.result(busy)
    approve(page)
    assert page.event("complete")["finish_reason"] == "stop"
    assert kernel.value("run.wait(40).tool_calls[0].state") == "'success'"
    kernel.run("embedded.CLIENT_SECONDS = 10.0")


def test_frames_come_in_at_most_thirty_messages_a_second_all_of_them_and_in_order(kernel: TestKernel) -> None:
    code = "import time\\nfor i in range(300):\\n    print(i, flush=True)\\n    time.sleep(0.005)"
    kernel.run(f'model = ScriptedModel([call("run_python", code="{code}"), say("Counted.")])')
    page = Page(kernel)
    begun = time.monotonic()
    kernel.run(START, allow_stdin=True)
    page.open()
    approve(page)
    page.event("complete")
    assert len(page.batches) <= 30 * (time.monotonic() - begun) + 2
    assert seqs(page.frames) == list(range(1, len(page.frames) + 1))
    printed = [frame["output"]["text"] for frame in page.frames if frame["type"] == "tool_output"]
    assert "".join(printed).split() == [str(i) for i in range(300)]


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
