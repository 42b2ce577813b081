"""A cell that is run again replaces its run; one that is deleted ends it. In both hosts, with real kernels."""

from pathlib import Path
from typing import Any

import pytest
import zmq
from jupyter_client.session import Session

from agent_kernel.notebook.kernel.cell_requests import read_frames
from tests.notebooks.kernel import TestKernel
from tests.notebooks.page import Page

pytestmark = [pytest.mark.kernel, pytest.mark.slow]

SCRIPTED = """
from agent_kernel.testing import ScriptedModel, call, say
import agent_kernel as ak, time
def asks(): return ScriptedModel([call('run_python', code='x = 1'), say('Never said.')])
def says(text): return ScriptedModel([say(text)])
made = []
def run(model, prompt='Again'):
    made.append(ak.Agent(model=model).start(prompt))
    return made[-1]
"""


def cancels(kernel: TestKernel, count: int) -> list[tuple[str, str]]:
    """The runs whose end the server was asked for, and why."""

    def look() -> list[tuple[str, str]]:
        found = [(event["run_id"], event["cause"]) for event in kernel.events if event["event"] == "cancel"]
        return found if len(found) >= count else []

    return kernel.wait(look)


def run_cells(served: TestKernel, *cells: tuple[str, str], **more: Any) -> None:
    for cell_id, code in cells:
        served.result(served.send_cell(cell_id, code, **more))


def test_a_cell_that_is_run_again_has_the_server_end_its_run(served: TestKernel) -> None:
    run_cells(served, ("a", "%agent go"), ("b", "%agent go"))
    first, other = served.announced(2)
    assert served.declared(first)["stop"] is None
    run_cells(served, ("a", "%agent go"))
    assert cancels(served, 1) == [(first, "cell_run_again")]
    assert served.declared(first)["stop"] == "cell_run_again"
    assert served.declared(other)["stop"] is None


def test_a_cell_that_the_page_has_named_is_replaced_though_its_requests_do_not_name_it(served: TestKernel) -> None:
    for _ in range(2):
        served.run("__import__('agent_kernel.notebook', fromlist=['load']).load({}, 'a', '%agent go')", silent=True)
        served.run("%agent go")
    first, again = served.announced(2)
    assert cancels(served, 1) == [(first, "cell_run_again")]
    assert served.declared(again)["cell_id"] == "a"


def test_a_cell_that_is_run_again_names_the_runs_that_it_replaces_in_its_conversation(served: TestKernel) -> None:
    run_cells(served, *[(cell, "%agent go") for cell in ("a", "b", "a")])
    run_cells(served, ("c", "%agent go\n%agent and on"), ("a", "%agent --new go"))
    first, other, again, *both, new = served.announced(6)
    assert [served.declared(run)["replaces"] for run in (first, other, again)] == [[], [], [first]]
    assert [served.declared(run)["replaces"] for run in (*both, new)] == [[], [], []]


def test_a_deleted_cell_ends_its_run_and_where_the_front_end_names_no_cell_nothing_ends(served: TestKernel) -> None:
    run_cells(served, ("a", "%agent go"))
    run_cells(served, ("b", "1"), deleted=["a", "b"])
    assert {cause for _, cause in cancels(served, 1)} == {"cell_deleted"}
    served.run("%agent go")
    served.run("%agent go")
    odd: list[dict[str, Any]] = [{"cellId": 7, "deletedCells": "a"}, {"cellId": "", "deletedCells": [None, 3, {}]}]
    for metadata in odd:
        content = {"code": "%agent go", "silent": False, "store_history": True, "user_expressions": {}}
        cell = served.result(served.post("execute_request", metadata, **content, allow_stdin=False))
        assert [kind for kind, _ in cell.outputs] == ["display_data"], cell.outputs
    assert [served.declared(run_id)["stop"] for run_id in served.announced(5)] == [None] * 5


def test_a_request_ends_the_run_of_its_cell_though_the_kernel_is_busy(served: TestKernel) -> None:
    """A call of that run may be what it is busy with."""
    run_cells(served, ("a", "%agent go"))
    busy = served.send_cell("b", "import time\nprint('busy', flush=True)\ntime.sleep(60)")
    served.printed(busy, "busy")
    again = served.send_cell("a", "%agent go")
    assert [cause for _, cause in cancels(served, 1)] == ["cell_run_again"]
    served.manager.interrupt_kernel()
    served.result(busy)
    served.result(again)


def test_a_waiting_call_is_replaced_and_the_new_run_ends_as_it_should(kernel: TestKernel) -> None:
    kernel.run(SCRIPTED)
    page = Page(kernel, "Go")
    kernel.result(kernel.send_cell("a", "first = run(asks(), 'Go')", allow_stdin=True))
    page.open()
    page.event("approval_request")
    kernel.result(kernel.send_cell("a", "second = run(says('fine'))", allow_stdin=True))
    assert kernel.value("first.wait(20).status, second.wait(20).status, second.text") == (
        "('cancelled', 'complete', 'fine')"
    )
    assert kernel.value("[(c.state, c.reason) for c in first.tool_calls]") == (
        "[('superseded', 'Its cell was run again.')]"
    )
    assert kernel.value("'x' in dir()") == "False"
    ended = page.event("tool_complete")
    assert (ended["state"], ended["reason"]) == ("superseded", "Its cell was run again.")
    assert "Replaced: the user ran the cell again. Nothing ran." in ended["tool_result"]


def test_requests_that_an_error_took_with_it_end_no_later_run(kernel: TestKernel, tmp_path: Path) -> None:
    kernel.run(SCRIPTED)
    sent = tmp_path / "sent"
    wait = f"while not os.path.exists({str(sent)!r}): time.sleep(0.01)"
    failing = kernel.send(f"import os\n{wait}\ntime.sleep(1)  # they arrive\n1 / 0")
    kernel.begun(failing)
    aborted = [kernel.send_cell("a", "run(says('never'))") for _ in range(3)]
    sent.touch()
    assert [kernel.result(cell).reply["status"] for cell in [failing, *aborted]] == ["error"] + ["aborted"] * 3
    kernel.result(kernel.send_cell("a", "run(says('fine')).wait()"))
    assert kernel.value("[(r.status, r.text) for r in made]") == "[('complete', 'fine')]"


def test_a_request_that_is_not_signed_ends_no_run() -> None:
    session, forger = Session(key=b"of the kernel"), Session(key=b"of nobody")
    for sender, is_read in ((session, True), (forger, False)):
        request = sender.msg("execute_request", metadata={"cellId": "a"})
        frames = [zmq.Frame(part) for part in sender.serialize(request)]
        assert (read_frames(session, frames) is not None) is is_read
