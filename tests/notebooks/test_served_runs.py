"""Runs in a kernel whose server has the extension. The test is the server: it started the kernel."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agent_kernel.protocol.views import Usage
from tests.core.record.record_examples import a_run
from tests.notebooks.conftest import SERVED
from tests.notebooks.kernel import TestKernel
from tests.programs import wait_until

pytestmark = [pytest.mark.kernel, pytest.mark.slow]


def replaced(served: TestKernel, cell: str) -> list[dict[str, Any]]:
    """What has taken the place of a cell's cards, once anything has."""

    def look() -> list[dict[str, Any]]:
        served.pump()
        return [content for kind, content in served.result(cell).outputs if kind == "update_display_data"]

    return wait_until(look, "the record")


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


def test_a_run_that_can_not_be_declared_says_why_and_is_not_announced(served: TestKernel) -> None:
    refused = served.run("ak.Agent(system=3).start('go')").reply
    assert refused["ename"] == "ConfigurationError"
    assert refused["evalue"] == "The run can't be started: system: Input should be a valid string"
    assert served.events == []


def test_the_record_takes_the_place_of_the_cards(served: TestKernel) -> None:
    cell = served.send("%agent go")
    served.result(cell)
    declared = served.declared()
    ids = {name: declared[name] for name in ("run_id", "conversation_id")}
    now = a_run(**ids, status="running", ended_at=None, usage=Usage(total_tokens=7))
    assert served.request("state", run=now.model_dump(mode="json"))["ok"]
    assert served.value("ak.last_run().usage.total_tokens") == "7"
    served.finish(declared)
    updates = replaced(served, cell)
    assert updates[0]["transient"]["display_id"] == declared["run_id"]
    assert set(updates[0]["data"]) == {"text/html", "text/markdown", "text/plain"}
    assert served.value("ak.last_run().status, ak.last_run().text") == "('complete', 'fine')"


def test_a_run_that_fails_when_the_next_one_has_started_leaves_its_record_at_once(served: TestKernel) -> None:
    first, second = (served.send(f"%agent {prompt}") for prompt in ("one", "two"))
    for cell in (first, second):
        served.result(cell)
    failed = {"status": "error", "error": {"code": "LLM_ERROR", "message": "The model is not well."}}
    for run_id in served.announced(2):
        served.finish(served.declared(run_id), **failed)
    [record] = replaced(served, first)
    assert "The model is not well." in record["data"]["text/plain"]
    served.run("None")
    kinds = [kind for kind, _ in served.result(second).outputs]
    assert kinds == ["display_data"], "the last one can be tried again"


def test_a_prompt_whose_cards_can_not_be_opened_says_why_and_runs_nothing(served: TestKernel) -> None:
    served.run(
        "import sys; kept = sys.modules.pop('agent_kernel_widgets', None); sys.modules['agent_kernel_widgets'] = None"
    )
    cell = served.run("%agent go")
    served.run("del sys.modules['agent_kernel_widgets']; kept and sys.modules.update(agent_kernel_widgets=kept)")
    assert cell.reply["ename"] in ("ImportError", "ModuleNotFoundError")
    assert served.events == []


def test_a_run_that_the_server_does_not_receive_ends_in_an_error(served: TestKernel) -> None:
    served.set_constant("agent_kernel.notebook.kernel.to_server", "ANNOUNCE_SECONDS", 0.01)
    served.run("%agent go")
    cell = served.run("ak.last_run().wait(10).error.message")
    assert "did not answer" in cell.value
    assert served.run("ak.last_run().text").reply["ename"] == "RunFailed"


def test_a_model_that_is_an_object_runs_in_the_kernel_itself(served: TestKernel) -> None:
    served.run("from agent_kernel.testing import ScriptedModel, say")
    assert served.value("ak.Agent(model=ScriptedModel([say('here')])).run('go').text") == "'here'"


def test_a_tools_own_approval_function_judges_and_fails_closed(served: TestKernel) -> None:
    served.run(
        "@ak.tool(approval=lambda a: {'1': 'allow', '2': 'nonsense'}[a['n']])\n"
        "def pick(n: str) -> str:\n"
        "    'Pick.'\n"
        "    return n\n"
        "run = ak.Agent(tools=[pick]).start('go')"
    )
    verdicts = [served.request("verdict", tool_name="pick", arguments_json=f'{{"n": "{n}"}}') for n in (1, 2, 3)]
    assert [verdict["value"]["approval"] for verdict in verdicts] == ["allow", "ask", "ask"]


def test_a_busy_kernel_shows_how_a_call_would_change_a_file(served: TestKernel, tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("old\n")
    busy = served.send("print('busy', flush=True)\nwhile True: pass")
    served.printed(busy, "busy")
    arguments = json.dumps({"path": str(path), "old_text": "old", "new_text": "new"})
    shown = served.request("preview", tool_name="edit_file", arguments_json=arguments)
    assert shown["value"]["diff"] == f"--- {path}\n+++ {path}\n@@ -1 +1 @@\n-old\n+new"
    assert path.read_text() == "old\n"
    assert served.request("preview", tool_name="edit_file", arguments_json='{"path":"none"}')["value"]["diff"] == ""
    assert served.request("preview", tool_name="edit_file", arguments_json="[]")["value"] is None
    served.manager.interrupt_kernel()
    served.result(busy)


def test_a_page_loads_the_agent_in_a_new_kernel_with_its_settings(
    start_kernel: Callable[..., TestKernel],
) -> None:
    kernel = start_kernel(**SERVED)
    load = '__import__("agent_kernel.notebook", fromlist=["load"]).load({"policy": "plan", "model": "m2"})'
    for _ in range(2):
        kernel.run(load, silent=True)
    kernel.run("%agent go")
    assert [kernel.declared()[name] for name in ("model", "policy")] == ["m2", "plan"]
