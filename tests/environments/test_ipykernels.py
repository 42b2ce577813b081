"""No server: the runtime in the kernel, its cards over the widget's messages, on each ipykernel that is taken.

The page is simulated at the level of Jupyter's messages. It says what JupyterLab says, on the channels it uses.
"""

import os
from collections.abc import Iterator
from typing import Any

import pytest

from tests.environments.versions import VERSIONS, python_with
from tests.notebooks.kernel import TestKernel
from tests.notebooks.page import Page

pytestmark = [pytest.mark.kernel, pytest.mark.soak]

IMPORTS = "from agent_kernel.testing import ScriptedModel, call, calls, say\nimport agent_kernel as ak\n"
ANSWER = 'model = ScriptedModel([call("run_python", code="x = 6 * 7\\nprint(x)"), say("It is **42**.")])\n'
START = "run = ak.Agent(model=model).start('What is 6 * 7?')"
WAITS = {"wait": f"{START}\nrun.wait()", "await": f"{START}\nawait run"}


@pytest.fixture(scope="module", params=VERSIONS)
def shared_kernel(request: pytest.FixtureRequest) -> Iterator[TestKernel]:
    """The graph is imported once for each version, which takes longer than the tests."""
    kernel = TestKernel(dict(os.environ), python_with(request.param))
    assert kernel.value("__import__('ipykernel').__version__") == repr(request.param)
    kernel.run(IMPORTS)
    kernel.run("from langgraph.graph import StateGraph")
    yield kernel
    kernel.close()


@pytest.fixture
def kernel(shared_kernel: TestKernel) -> TestKernel:
    shared_kernel.listeners.clear()
    shared_kernel.run("%reset -f")
    shared_kernel.run(IMPORTS + ANSWER)
    return shared_kernel


def decide(page: Page, approved: bool) -> dict[str, Any]:
    """Decide on the first call that asks. Returns what was asked."""
    asked = page.event("approval_request")
    page.send(type="approval_response", approval_id=asked["approval_id"], approved=approved, digest=asked["digest"])
    return asked


@pytest.mark.parametrize("code", WAITS.values(), ids=WAITS)
def test_a_click_counts_while_the_cell_waits_and_the_cells_behind_it_run_after_it_once(
    kernel: TestKernel, code: str
) -> None:
    kernel.run("ran = []")
    page = Page(kernel)
    first = kernel.send(f"{code}\nran.append(run.text)", allow_stdin=True)
    behind = kernel.send("ran.append(x); ran")
    page.open()
    decide(page, approved=True)
    assert page.event("complete")["finish_reason"] == "stop"
    assert [frame["seq"] for frame in page.frames] == list(range(1, len(page.frames) + 1))
    assert "data-agent-record" in page.record()["data"]["text/html"]
    assert kernel.result(first).reply["status"] == "ok"
    assert kernel.result(behind).value == "['It is **42**.', 42]"


def test_stop_ends_the_call_that_runs_in_a_waiting_cell(kernel: TestKernel) -> None:
    kernel.run(f"model = ScriptedModel([call('run_python', code={SLEEPS!r})])")
    page = Page(kernel)
    cell = kernel.send(f"{WAITS['wait']}\nrun.status, len(run.tool_calls)", allow_stdin=True)
    page.open()
    asked = decide(page, approved=True)
    page.event("tool_output")
    page.send(type="cancel", run_id=asked["run_id"])
    assert kernel.result(cell).value == "('cancelled', 1)"


SLEEPS = "import time\nprint('asleep', flush=True)\ntime.sleep(600)"


def test_an_interrupt_of_the_waiting_cell_ends_its_run_and_aborts_the_cells_behind_it(kernel: TestKernel) -> None:
    page = Page(kernel)
    kernel.run(START, allow_stdin=True)
    page.open()
    cell = kernel.send("print('waits', flush=True)\nrun.wait()", allow_stdin=True)
    behind = kernel.send("behind = 1")
    kernel.printed(cell, "waits")
    page.resume(0)
    seen = len(page.frames)
    page.until(lambda: len(page.frames) > seen)  # the cell hears the page: it waits
    kernel.manager.interrupt_kernel()
    assert kernel.result(cell).reply["ename"] == "KeyboardInterrupt"
    assert kernel.result(behind).reply["status"] == "aborted"
    assert kernel.value("run.wait(40).status") == "'cancelled'"


def test_a_cell_that_is_run_again_while_it_waits_gives_way_to_its_next_run(kernel: TestKernel) -> None:
    page = Page(kernel, "What is 6 * 7?")
    first = kernel.send_cell("a", f"{START}; first = run; run.wait()", allow_stdin=True)
    page.open()
    page.event("approval_request")
    code = "run = ak.Agent(model=ScriptedModel([say('fine')])).start('Again.'); run.wait()"
    again = kernel.send_cell("a", code, allow_stdin=True)
    for cell in (first, again):
        assert kernel.result(cell).reply["status"] == "ok"
    assert kernel.value("first.wait(40).status, run.wait(40).status, run.text") == "('cancelled', 'complete', 'fine')"
    assert kernel.value("first.tool_calls[0].state, first.tool_calls[0].reason") == (
        "('superseded', 'Its cell was run again.')"
    )
