"""The agent reads, changes and runs cells of the notebook as the page shows it, in JupyterLab."""

from collections.abc import Callable

import nbformat
import pytest
from playwright.sync_api import Page, expect

from agent_kernel.testing import call, calls, say
from tests.e2e.lab import LOAD_READY, LabServer, NotebookPage, close_notebooks
from tests.e2e.model import Gate, WrittenModel
from tests.programs import wait_until

IDS = "() => window.jupyterapp.shell.currentWidget.content.widgets.map(cell => cell.model.id)"
RUN_LAST = """async () => {
  const { shell, commands } = window.jupyterapp;
  const notebook = shell.currentWidget.content;
  notebook.activeCellIndex = notebook.widgets.length - 1;
  await commands.execute('notebook:run-cell');
}"""

OpenCells = Callable[..., NotebookPage]


@pytest.fixture
def open_cells(lab: LabServer, page: Page, request: pytest.FixtureRequest) -> OpenCells:
    """Opens a notebook whose cells have the ids c0, c1, … after a first one that loads the agent."""

    def open_it(*cells: str | nbformat.NotebookNode) -> NotebookPage:
        path = lab.write_notebook(f"{request.node.name}.ipynb", [LOAD_READY])
        notebook = nbformat.read(path, as_version=4)
        notebook.cells += [nbformat.v4.new_code_cell(cell) if isinstance(cell, str) else cell for cell in cells]
        for number, cell in enumerate(notebook.cells):
            cell.id = f"c{number}"
        nbformat.write(notebook, path)
        return NotebookPage(lab, page, path)

    yield open_it
    close_notebooks(page)
    lab.close_kernels()


CHANGE_FOUR = """() => {
  const model = window.jupyterapp.shell.currentWidget.content.model.sharedModel;
  model.getCell(4).setMetadata('editable', false);
  model.deleteCell(2);
  model.moveCell(2, 3);
}"""


def test_cells_that_were_changed_deleted_moved_or_locked_since_their_cards_came(
    open_cells: OpenCells, model: WrittenModel
) -> None:
    edits = [call("edit_cell", call_id=name, cell_id=name, source="mended = 1") for name in ("c1", "c2", "c3", "c4")]
    model.says(call("read_notebook"), calls(*edits), say("I see."))
    notebook = open_cells(*("broken = 0",) * 4, "%%agent\nMend the cells above.")
    notebook.run(0)
    notebook.page.evaluate(RUN_LAST)
    notebook.wait_for_state("awaiting_approval", card=4)
    stale = notebook.card(1).locator("[data-stale]")
    notebook.set_source(1, "broken = 12")
    expect(stale).to_contain_text("The cell has changed.")
    notebook.page.evaluate(CHANGE_FOUR)
    expect(notebook.card(4).locator("[data-stale]")).to_contain_text("The cell is locked now.")
    notebook.page.get_by_role("button", name="Approve all").click()
    expect(notebook.record()).to_contain_text("I see.")
    _, changed, deleted, moved, locked = model.tool_results()
    assert "-broken = 0\n+broken = 12" in changed
    assert "There is no cell c2 in the notebook now." in deleted
    assert "Edited cell:c3" in moved
    assert "is locked" in locked
    assert notebook.sources()[1:4] == ["broken = 12", "broken = 0", "mended = 1"]


def test_cells_are_added_moved_deleted_and_run_as_the_user_would_and_the_run_is_undone(
    open_cells: OpenCells, model: WrittenModel
) -> None:
    model.says(
        call("read_notebook"),
        call("insert_cell", source="first = 1\nfirst", after="c1", run=True),
        call("move_cell", cell_id="c1", after=None),
        call("delete_cell", cell_id="c2"),
        call("run_cell", cell_id="c1"),
        call("run_cell", cell_id="c3"),
        say("Done."),
    )
    plot = nbformat.v4.new_output("display_data", {"text/html": "<p id=drawn>A plot</p>", "text/plain": "A plot"})
    plotted = nbformat.v4.new_code_cell("# to be deleted", outputs=[plot], metadata={"tags": ["plot"]})
    notebook = open_cells("x = 1 / 0", plotted, "%%agent --policy allow\nTidy up.")
    notebook.run(0)
    notebook.page.evaluate(RUN_LAST)
    expect(notebook.record()).to_contain_text("Done.")
    sources = notebook.sources()
    assert sources[:3] == ["x = 1 / 0", LOAD_READY, "first = 1\nfirst"]
    assert len(sources) == 4
    inserted, moved, deleted, ran, own = model.tool_results()[1:]
    assert "--- output: 1" in inserted
    assert moved.startswith("Moved cell:c1")
    assert deleted.startswith("Deleted cell:c2")
    assert "ZeroDivisionError: division by zero" in ran
    assert "is the one of the prompt itself" in own
    assert notebook.outputs(0)[0]["ename"] == "ZeroDivisionError"
    notebook.command("notebook:undo-cell-action")
    assert "# to be deleted" in notebook.sources()
    notebook.command("notebook:redo-cell-action")
    assert notebook.sources() == sources
    notebook.set_source(2, "first = 2")
    notebook.page.get_by_role("button", name="Undo this run").click()
    expect(notebook.record()).to_contain_text("Undone: the cell is as it was before.")
    expect(notebook.record()).to_contain_text(" was changed since. Undo would lose that, so it is not offered.")
    assert notebook.sources()[:4] == [LOAD_READY, "x = 1 / 0", "first = 2", "# to be deleted"]
    assert notebook.page.evaluate(IDS)[3] == "c2"
    [back] = [cell for cell in notebook.save().cells if cell.id == "c2"]
    assert (back.outputs, back.metadata.tags) == ([plot], ["plot"])
    assert notebook.trusted()[3] is False


def test_a_cell_that_the_agent_runs_is_interrupted_by_stop(open_cells: OpenCells, model: WrittenModel) -> None:
    model.says(call("read_notebook"), call("run_cell", cell_id="c1"))
    notebook = open_cells("import time\nprint('begun')\ntime.sleep(600)", "%%agent --policy allow\nRun the first cell.")
    notebook.run(0)
    notebook.run(2)
    wait_until(lambda: notebook.text(1) == "begun", "the cell to begin")
    notebook.page.get_by_role("button", name="Stop", exact=True).click()
    expect(notebook.record()).to_be_visible()
    notebook.wait_until_idle()
    assert notebook.outputs(1)[-1]["ename"] == "KeyboardInterrupt"


def test_the_notebook_is_read_as_it_stands_in_the_page(open_cells: OpenCells, model: WrittenModel) -> None:
    read = Gate(call("read_notebook"))
    model.says(read, say("I see."))
    sleeps = "import time\nprint('begun', flush=True)\ntime.sleep(600)"
    notebook = open_cells("x = 1\nx", sleeps, "%%agent\nRead it.")
    for index in (0, 1, 3):
        notebook.run(index)
    notebook.run(2, wait=False)
    wait_until(lambda: notebook.text(2) == "begun", "the cell to begin")
    notebook.set_source(1, "x = 2\nx")
    read.open()
    expect(notebook.record()).to_contain_text("I see.")
    [told] = model.tool_results()
    assert ", as the page shows it now: 4 cells" in told
    assert "[2] cell:c1 (code, number 1, changed since it ran)\nx = 2\nx\n--- output: 1\n" in told
    assert "cell:c2 (code, number 2, runs now)\nimport time\n" in told
    assert "\n--- output: begun\n" in told
    notebook.start("notebook:interrupt-kernel")
    notebook.wait_until_idle()
