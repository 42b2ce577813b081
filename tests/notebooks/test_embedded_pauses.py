"""Runs with no server that reach their budget: a page adds to it, and where nobody can, the run ends."""

from typing import Any

import pytest

from tests.notebooks.kernel import TestKernel
from tests.notebooks.page import Page

pytestmark = [pytest.mark.kernel, pytest.mark.slow]

SETUP = """from agent_kernel.testing import ScriptedModel, call, say
import agent_kernel as ak
turns = [call("run_python", code="seen = [1]"), call("run_python", code="seen.append(2)"), say("Looked twice.")]
"""
AGENT = 'agent = ak.Agent(model=ScriptedModel(turns), policy="allow", budget=ak.Budget(tool_calls=1))'
RUN = "run = agent.run('Look twice.')"


@pytest.fixture
def budget_kernel(kernel: TestKernel) -> TestKernel:
    kernel.run(SETUP + AGENT)
    return kernel


def wait_for_pause(page: Page) -> dict[str, Any]:
    def paused() -> list[dict[str, Any]]:
        return [frame["run"] for frame in page.frames if frame["type"] == "run" and frame["run"]["paused"]]

    page.until(lambda: bool(paused()))
    return paused()[0]


def test_a_page_adds_to_the_budget_while_the_cell_blocks_and_the_run_goes_on(budget_kernel: TestKernel) -> None:
    page = Page(budget_kernel)
    cell = budget_kernel.send(RUN, allow_stdin=True)
    page.open()
    run = wait_for_pause(page)
    assert run["paused"]["reached"] == ["tool_calls"]
    answer = {"run_id": run["run_id"], "pause_id": run["paused"]["pause_id"], "add": {"tool_calls": 5}}
    page.send(type="budget", **answer)
    assert page.event("complete")["finish_reason"] == "stop"
    assert budget_kernel.result(cell).reply["status"] == "ok"
    assert budget_kernel.value("run.status, run.text, seen") == "('complete', 'Looked twice.', [1, 2])"


def test_where_no_page_answers_a_run_at_its_budget_ends_with_the_reason(budget_kernel: TestKernel) -> None:
    budget_kernel.set_constant("agent_kernel.notebook.hosts.embedded", "CLIENT_SECONDS", 0.1)
    budget_kernel.run(RUN, allow_stdin=True)
    assert budget_kernel.value("run.status, run.error.code, seen") == "('error', 'BUDGET_EXCEEDED', [1])"
