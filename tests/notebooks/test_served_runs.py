"""Runs in a kernel whose server has the extension. The test is the server: it started the kernel."""

from collections.abc import Callable

import pytest

from tests.notebooks.conftest import SERVED
from tests.notebooks.kernel import TestKernel

pytestmark = [pytest.mark.kernel, pytest.mark.slow]


def test_a_cell_returns_at_once_and_declares_its_run_and_the_server_is_asked_to_cancel_it(served: TestKernel) -> None:
    cell = served.run("%%agent --model m1 --policy plan\nLook at `df`.")
    (shown,) = (content for kind, content in cell.outputs if kind == "display_data")
    assert "application/vnd.jupyter.widget-view+json" in shown["data"]
    declared = served.declared()
    assert (declared["prompt"], declared["model"], declared["policy"]) == ("Look at `df`.", "m1", "plan")
    assert declared["conversation_id"] == served.event("announce")["conversation_id"]
    assert "run_python" in [tool["name"] for tool in declared["tools"]]
    assert shown["data"]["application/vnd.jupyter.widget-view+json"]["model_id"] == declared["widget_model_id"]
    assert served.value("ak.last_run().status") == "'running'"
    served.run("ak.last_run().cancel()")
    assert served.event("cancel")["run_id"] == declared["run_id"]


def test_a_run_that_the_server_does_not_receive_ends_in_an_error(served: TestKernel) -> None:
    served.set_constant("agent_kernel.notebook.kernel.to_server", "ANNOUNCE_SECONDS", 0.01)
    served.run("%agent go")
    cell = served.run("ak.last_run().wait(10).error.message")
    assert "did not answer" in cell.value
    assert served.run("ak.last_run().text").reply["ename"] == "RunFailed"


def test_a_model_that_is_an_object_runs_in_the_kernel_itself(served: TestKernel) -> None:
    served.run("from agent_kernel.testing import ScriptedModel, say")
    assert served.value("ak.Agent(model=ScriptedModel([say('here')])).run('go').text") == "'here'"


def test_a_page_loads_the_agent_in_a_new_kernel_with_its_settings(
    start_kernel: Callable[..., TestKernel],
) -> None:
    kernel = start_kernel(**SERVED)
    load = '__import__("agent_kernel.notebook", fromlist=["load"]).load({"policy": "plan", "model": "m2"})'
    for _ in range(2):
        kernel.run(load, silent=True)
    kernel.run("%agent go")
    assert [kernel.declared()[name] for name in ("model", "policy")] == ["m2", "plan"]
