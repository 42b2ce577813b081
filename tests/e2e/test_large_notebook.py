"""A notebook of thousands of cells, which JupyterLab draws one after another for minutes, as it does by default."""

from collections.abc import Iterator

import nbformat
import pytest
from playwright.sync_api import Page, expect

from agent_kernel.testing import call, say
from tests.e2e.lab import SETTINGS, LabServer, NotebookPage
from tests.e2e.model import WrittenModel
from tests.programs import wait_until

CELLS = 2_000
LAST = "() => window.jupyterapp.shell.currentWidget.content.activeCell.node.isConnected"


@pytest.fixture
def lab(
    shared_model: WrittenModel, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Iterator[LabServer]:
    monkeypatch.delitem(SETTINGS, "@jupyterlab/notebook-extension/tracker")
    with LabServer(tmp_path_factory.mktemp("large"), shared_model.server.environment()) as server:
        yield server


def test_a_call_in_a_cell_that_is_not_drawn_yet_is_decided_in_the_panel(
    lab: LabServer, model: WrittenModel, fresh_page: Page
) -> None:
    path = lab.write_notebook("large.ipynb", [*(f"x = {number}" for number in range(CELLS)), "%%agent\nGo"])
    cell_id = nbformat.read(path, as_version=4).cells[1].id
    model.says(call("read_notebook"), call("edit_cell", cell_id=cell_id, source="x = 'changed'"), say("It is changed."))
    notebook = NotebookPage(lab, fresh_page, path)
    notebook.run(CELLS, wait=False)
    notebook.page.get_by_role("button", name="1 call waits for you").click()
    panel = notebook.page.get_by_role("region", name="What Waits and What Ran")
    assert notebook.page.evaluate(LAST) is False, "else this tests nothing"
    panel.get_by_role("button", name="Approve", exact=True).click()
    wait_until(lambda: notebook.sources()[1] == "x = 'changed'", "the cell to be changed")
    expect(panel).to_contain_text("Done")
