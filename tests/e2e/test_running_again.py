"""People run cells again, delete them, clear outputs, run all: no run is ever out of reach."""

from playwright.sync_api import expect

from agent_kernel.testing import call, say
from tests.e2e.conftest import OpenNotebook
from tests.e2e.lab import LabServer
from tests.e2e.model import WrittenModel
from tests.programs import wait_until

LOAD = "%load_ext agent_kernel"


def statuses(lab: LabServer, prompt: str) -> list[str]:
    """The runs that were asked this, the oldest first."""
    views = lab.api("GET", "agent-kernel/api/conversations")
    return [run["status"] for view in views for run in view["runs"] if run["prompt"].startswith(prompt)]


def test_the_cell_is_run_again_while_its_call_waits_and_the_new_run_begins_at_once(
    open_notebook: OpenNotebook, model: WrittenModel, lab: LabServer
) -> None:
    model.says(call("run_python", code="first = 1"), call("run_python", code="print('second')"), say("Once."))
    notebook = open_notebook([LOAD, "%%agent\nAsk me again.", "'first' in globals()"])
    notebook.run_through(1)
    notebook.wait_for_state("awaiting_approval")
    notebook.run(1)
    expect(notebook.card()).to_contain_text("print('second')")
    notebook.wait_for_state("awaiting_approval")
    expect(notebook.cards()).to_have_count(1)
    assert statuses(lab, "Ask me again.") == ["cancelled", "running"]
    notebook.press("Approve")
    expect(notebook.record()).to_contain_text("Once.")
    notebook.run(2)
    assert notebook.text(2) == "False", "the first call ran"


def test_the_cell_is_run_again_while_its_call_runs(
    open_notebook: OpenNotebook, model: WrittenModel, lab: LabServer
) -> None:
    model.says(call("run_python", code="import time\nprint('asleep', flush=True)\ntime.sleep(60)"), say("Now."))
    notebook = open_notebook([LOAD, "%%agent --policy allow\nTake a minute."])
    notebook.run_through(1)
    expect(notebook.card()).to_contain_text("asleep")
    notebook.run(1)
    expect(notebook.record()).to_contain_text("Now.")
    assert statuses(lab, "Take a minute.") == ["cancelled", "complete"]


def test_a_deleted_cell_ends_its_run(open_notebook: OpenNotebook, model: WrittenModel, lab: LabServer) -> None:
    model.says(call("run_python", code="1"), call("run_python", code="2"), say("The other one."))
    notebook = open_notebook([LOAD, "%%agent\nIn a cell to be deleted.", "%%agent\nIn the other cell."])
    notebook.run_through(1)
    notebook.wait_for_state("awaiting_approval")
    notebook.command("notebook:delete-cell")
    expect(notebook.cards()).to_have_count(0)
    notebook.run(1)
    notebook.wait_for_state("awaiting_approval")
    assert statuses(lab, "In a cell to be deleted.") == ["cancelled"]
    notebook.press("Approve")
    expect(notebook.record()).to_contain_text("The other one.")


def test_run_all_three_times_leaves_one_run(open_notebook: OpenNotebook, model: WrittenModel, lab: LabServer) -> None:
    model.says(*(call("run_python", code=f"n = {number}") for number in range(3)), say("Once."))
    notebook = open_notebook([LOAD, "%%agent\nAll of it.", "n"])
    for number in range(3):
        notebook.command("notebook:run-all-cells")
        expect(notebook.card()).to_contain_text(f"n = {number}")
        notebook.wait_for_state("awaiting_approval")
    wait_until(lambda: statuses(lab, "All of it.") == ["cancelled", "cancelled", "running"], "the runs to give way")
    notebook.press("Approve")
    expect(notebook.record()).to_contain_text("Once.")
    notebook.run(2)
    assert notebook.text(2) == "2"
