"""The agent reads, changes and runs cells of the notebook as the page shows it, in JupyterLab."""

from collections.abc import Callable
from typing import Any

import nbformat
import pytest
from playwright.sync_api import Page, expect

from agent_kernel.testing import call, say
from tests.e2e.lab import LOAD_READY, LabServer, NotebookPage
from tests.e2e.model import WrittenModel

SOURCE = "index => window.jupyterapp.shell.currentWidget.content.widgets[index].model.sharedModel.getSource()"
SET_SOURCE = """([index, source]) =>
  window.jupyterapp.shell.currentWidget.content.widgets[index].model.sharedModel.setSource(source)"""
IDS = "() => window.jupyterapp.shell.currentWidget.content.widgets.map(cell => cell.model.id)"
SOURCES = "() => window.jupyterapp.shell.currentWidget.content.widgets.map(cell => cell.model.sharedModel.getSource())"

OpenCells = Callable[..., NotebookPage]


@pytest.fixture
def open_cells(lab: LabServer, page: Page, request: pytest.FixtureRequest) -> OpenCells:
    """Opens a notebook whose cells have the ids c0, c1, … after a first one that loads the agent."""

    def open_it(*cells: str, page: Page = page, **metadata: dict[str, Any]) -> NotebookPage:
        path = lab.write_notebook(f"{request.node.name}.ipynb", [LOAD_READY, *cells])
        notebook = nbformat.read(path, as_version=4)
        for number, cell in enumerate(notebook.cells):
            cell.id = f"c{number}"
            cell.metadata.update(metadata.get(cell.id, {}))
        nbformat.write(notebook, path)
        return NotebookPage(lab, page, path)

    yield open_it
    lab.close_kernels()


def source(notebook: NotebookPage, index: int) -> str:
    found: str = notebook.page.evaluate(SOURCE, index)
    return found


def test_one_approval_edits_and_runs_the_failing_cell_and_ctrl_z_puts_its_source_back(
    open_cells: OpenCells, model: WrittenModel
) -> None:
    model.says(
        call("read_notebook"),
        call("edit_cell", cell_id="c1", source="total = 1 + 1\ntotal", run=True),
        say("Mended."),
    )
    notebook = open_cells("total = 1 + nothing\ntotal", "%%agent\nMend the cell above.")
    notebook.run_through(1)
    notebook.page.evaluate(SET_SOURCE, [0, f"{LOAD_READY}\n# typed, not saved"])
    notebook.run(2)
    notebook.wait_for_state("awaiting_approval", card=1)
    card = notebook.card(1)
    expect(card.locator("[data-role=diff] .ak-del")).to_contain_text("total = 1 + nothing")
    expect(card.locator("[data-role=diff] .ak-add")).to_contain_text("total = 1 + 1")
    notebook.press("Approve", card=1)
    expect(notebook.record()).to_contain_text("Mended.")
    assert (source(notebook, 1), notebook.text(1)) == ("total = 1 + 1\ntotal", "2")
    assert notebook.prompt_number(1) == 4, "it ran as the user's own cells run"
    read, edited = model.tool_results()
    assert "as the page shows it now: 3 cells" in read
    assert "# typed, not saved" in read
    assert "NameError: name 'nothing' is not defined" in read
    assert edited.startswith("Edited cell:c1")
    assert "Ran cell:c1 as [4]:\n--- output: 2" in edited
    before = nbformat.read(notebook.path, as_version=4)
    after = notebook.save()
    assert [one.source for one in after.cells][2] == before.cells[2].source
    notebook.page.locator(".jp-Cell .cm-content").nth(1).click()
    notebook.page.keyboard.press("Control+z")
    assert source(notebook, 1) == "total = 1 + nothing\ntotal"
