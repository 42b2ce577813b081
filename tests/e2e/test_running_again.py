"""People run cells again, delete them, clear outputs, run all: no run is ever out of reach."""

from playwright.sync_api import expect

from agent_kernel.testing import call, say
from tests.e2e.conftest import OpenNotebook
from tests.e2e.lab import LabServer
from tests.e2e.model import WrittenModel
from tests.e2e.records import bundles
from tests.programs import wait_until

LOAD = "%load_ext agent_kernel"
SLEEP = "import time\nprint('asleep', flush=True)\ntime.sleep(600)"


def statuses(lab: LabServer, prompt: str) -> list[str]:
    """The runs of the kernels that are there which were asked this, the oldest first."""
    kernels = {kernel["id"] for kernel in lab.api("GET", "api/kernels")}
    views = [view for view in lab.api("GET", "agent-kernel/api/conversations") if view["kernel_id"] in kernels]
    return [run["status"] for view in views for run in view["runs"] if run["prompt"].startswith(prompt)]


def wait_for_statuses(lab: LabServer, prompt: str, those: list[str]) -> None:
    """The server's list may lag behind what the page shows."""
    wait_until(lambda: statuses(lab, prompt) == those, f"the runs to be {those}")


def test_run_all_three_times_leaves_one_run_which_moves_with_its_cell_and_ends_with_it(
    open_notebook: OpenNotebook, model: WrittenModel, lab: LabServer
) -> None:
    model.says(*(call("run_python", code=f"n = {number}") for number in range(3)), say("Once."))
    notebook = open_notebook([LOAD, "%%agent\nAll of it.", "n"])
    for number in range(3):
        notebook.start("notebook:run-all-cells")
        expect(notebook.card()).to_contain_text(f"n = {number}")
        notebook.wait_for_state("awaiting_approval")
    wait_for_statuses(lab, "All of it.", ["cancelled", "cancelled", "running"])

    notebook.activate(1)
    notebook.command("notebook:cut-cell")
    expect(notebook.cards()).to_have_count(0)
    notebook.command("notebook:paste-cell-below")
    notebook.wait_for_state("awaiting_approval")
    notebook.press("Approve")
    expect(notebook.record()).to_contain_text("Once.")
    notebook.run(1)
    assert notebook.text(1) == "2"

    model.says(call("run_python", code=SLEEP))
    notebook.run(2)
    notebook.press("Approve")
    expect(notebook.card()).to_contain_text("asleep")
    notebook.command("notebook:delete-cell")
    expect(notebook.cards()).to_have_count(0)
    notebook.run(1)
    assert notebook.text(1) == "2"
    wait_for_statuses(lab, "All of it.", ["cancelled", "cancelled", "complete", "cancelled"])


def test_a_run_whose_output_was_cleared_is_shown_again_and_is_in_its_cell_after_a_reload(
    open_notebook: OpenNotebook, model: WrittenModel
) -> None:
    first, second = (call("run_python", code=f"print('plotted {time}')") for time in ("once", "twice"))
    model.says(first, second, say("A plot."), say("A table."))
    notebook = open_notebook([LOAD, "%%agent\nPlot body mass of the penguins.", "%%agent\nNow a table."])
    notebook.run_through(1)
    notebook.wait_for_state("awaiting_approval")
    notebook.command("notebook:clear-cell-output")  # its card is gone when that has returned
    notebook.wait_for_state("awaiting_approval")
    notebook.run(2)
    ahead = notebook.page.locator("[data-role=ahead]")
    expect(ahead).to_contain_text("Behind Plot body mass of the penguins, which waits for you.")
    notebook.press("Approve")
    notebook.wait_for_state("awaiting_approval", card=1)

    notebook.reload()  # without saving: the cells show their runs again
    notebook.wait_for_state("awaiting_approval", card=1)
    notebook.press("Approve", card=1)
    records = notebook.page.locator(".agent-record")  # the notebook is not trusted as yet
    expect(records.first).to_contain_text("A plot.")
    expect(records.nth(1)).to_contain_text("A table.")
    saved = str(bundles(notebook.save(), 1))
    for words in ("A plot.", "plotted once", "plotted twice"):
        assert words in saved
