"""People run cells again, delete them, clear outputs, run all: no run is ever out of reach."""

from playwright.sync_api import Locator, expect

from agent_kernel.testing import call, say
from tests.e2e.conftest import OpenNotebook
from tests.e2e.lab import LabServer, NotebookPage
from tests.e2e.model import WrittenModel
from tests.e2e.records import assert_record_is_saved
from tests.programs import wait_until

LOAD = "%load_ext agent_kernel"
PLOT = "%%agent\nPlot body mass of the penguins."
TABLE = "%%agent\nNow a table."


def ahead(notebook: NotebookPage) -> Locator:
    """What a queued run says of the one that it waits for."""
    return notebook.page.locator("[data-role=ahead]")


def press_ahead(notebook: NotebookPage, name: str) -> None:
    ahead(notebook).get_by_role("button", name=name, exact=True).click()


def statuses(lab: LabServer, prompt: str) -> list[str]:
    """The runs of the kernels that are there which were asked this, the oldest first."""
    kernels = {kernel["id"] for kernel in lab.api("GET", "api/kernels")}
    views = [view for view in lab.api("GET", "agent-kernel/api/conversations") if view["kernel_id"] in kernels]
    return [run["status"] for view in views for run in view["runs"] if run["prompt"].startswith(prompt)]


def wait_for_statuses(lab: LabServer, prompt: str, those: list[str]) -> None:
    """The server's list may lag behind what the page shows."""
    wait_until(lambda: statuses(lab, prompt) == those, f"the runs to be {those}")


def test_a_cell_that_is_deleted_while_its_call_runs(
    open_notebook: OpenNotebook, model: WrittenModel, lab: LabServer
) -> None:
    model.says(call("run_python", code="import time\nprint('asleep', flush=True)\ntime.sleep(600)"))
    notebook = open_notebook([LOAD, "%%agent --policy allow\nIn a cell deleted meanwhile.", "6 * 7"])
    notebook.run_through(1)
    expect(notebook.card()).to_contain_text("asleep")
    notebook.command("notebook:delete-cell")
    expect(notebook.cards()).to_have_count(0)
    notebook.run(1)
    assert notebook.text(1) == "42"
    wait_for_statuses(lab, "In a cell deleted meanwhile.", ["cancelled"])


def test_a_cell_that_is_cut_and_pasted_keeps_its_run(
    open_notebook: OpenNotebook, model: WrittenModel, lab: LabServer
) -> None:
    model.says(call("run_python", code="print('moved')"), say("Moved."))
    notebook = open_notebook([LOAD, "%%agent\nIn a cell that moves.", "6 * 7"])
    notebook.run_through(1)
    notebook.wait_for_state("awaiting_approval")
    notebook.command("notebook:cut-cell")
    expect(notebook.cards()).to_have_count(0)
    notebook.command("notebook:paste-cell-below")
    notebook.wait_for_state("awaiting_approval")
    notebook.run(1)
    assert notebook.text(1) == "42"
    notebook.press("Approve")
    # Exactly, because the list of files has names that end so.
    expect(notebook.page.get_by_text("Moved.", exact=True)).to_be_visible()
    wait_for_statuses(lab, "In a cell that moves.", ["complete"])


def test_run_all_three_times_leaves_one_run(open_notebook: OpenNotebook, model: WrittenModel, lab: LabServer) -> None:
    model.says(*(call("run_python", code=f"n = {number}") for number in range(3)), say("Once."))
    notebook = open_notebook([LOAD, "%%agent\nAll of it.", "n"])
    for number in range(3):
        notebook.start("notebook:run-all-cells")
        expect(notebook.card()).to_contain_text(f"n = {number}")
        notebook.wait_for_state("awaiting_approval")
    wait_for_statuses(lab, "All of it.", ["cancelled", "cancelled", "running"])
    notebook.press("Approve")
    expect(notebook.record()).to_contain_text("Once.")
    notebook.run(2)
    assert notebook.text(2) == "2"


def test_a_run_whose_output_was_cleared_is_answered_from_the_queued_one(
    open_notebook: OpenNotebook, model: WrittenModel
) -> None:
    model.says(call("run_python", code="print('plotted')"), say("A plot."), say("A table."))
    notebook = open_notebook([LOAD, PLOT, TABLE])
    notebook.run_through(1)
    notebook.wait_for_state("awaiting_approval")
    notebook.command("notebook:clear-cell-output")
    expect(notebook.cards()).to_have_count(0)
    notebook.run(2)
    expect(ahead(notebook)).to_contain_text("Behind Plot body mass of the penguins, which waits for you.")
    press_ahead(notebook, "Show here")
    notebook.wait_for_state("awaiting_approval")
    notebook.press("Approve")
    expect(notebook.record()).to_contain_text("A table.")
    expect(ahead(notebook)).to_have_count(0)
    assert model.tool_results() == ["plotted"]


def test_after_a_reload_without_saving_the_waiting_run_is_still_in_reach(
    open_notebook: OpenNotebook, model: WrittenModel, lab: LabServer
) -> None:
    model.says(call("run_python", code="1"), call("run_python", code="2"), say("A plot."), say("A table."))
    notebook = open_notebook([LOAD, PLOT, TABLE])
    notebook.run_through(1)
    notebook.wait_for_state("awaiting_approval")
    notebook.reload()
    expect(notebook.cards()).to_have_count(0)
    notebook.run(2)
    press_ahead(notebook, "Show here")
    notebook.wait_for_state("awaiting_approval")
    expect(notebook.card()).to_contain_text("1")

    notebook.run(1)  # the same cell as before the reload: its run gives way, and the new one stands behind the table's
    wait_for_statuses(lab, "Plot body mass", ["cancelled", "queued"])
    notebook.wait_for_state("awaiting_approval")
    notebook.press("Approve")
    expect(notebook.record().nth(1)).to_be_visible()


def test_what_waits_without_its_card_can_be_shown_from_the_status_bar(
    open_notebook: OpenNotebook, model: WrittenModel
) -> None:
    model.says(call("run_python", code="print('plotted')"), say("A plot."))
    notebook = open_notebook([LOAD, PLOT, "6 * 7"])
    notebook.run_through(1)
    notebook.wait_for_state("awaiting_approval")
    notebook.reload()  # without saving: the cell has no output any more
    notebook.page.get_by_role("button", name="1 call waits for you").click()
    expect(notebook.page.get_by_text("The Card Is Not in This Notebook")).to_be_visible()
    expect(notebook.cards()).to_have_count(0)
    notebook.page.get_by_role("button", name="Show It Below").click()
    notebook.wait_for_state("awaiting_approval")
    notebook.press("Approve")
    expect(notebook.record()).to_contain_text("A plot.")
    assert_record_is_saved(notebook.save(), 2, "A plot.", "plotted")
