"""What the JupyterLab extension adds to notebooks that are opened again, with no widget of ours in the page: in
JupyterLab and in Notebook 7."""

from collections.abc import Iterator
from typing import Any

import nbformat
import pytest
from playwright.sync_api import Page, expect

from tests.e2e.lab import App, LabServer, NotebookPage
from tests.e2e.test_keys import EVERY_KEY, NOTEBOOK

APPS: tuple[App, ...] = ("jupyterlab", "notebook")
RECORD = """<div class="agent-record" data-agent-record="run_1">
<p><strong>Agent run: complete.</strong></p>
<details><summary>1 call</summary><p>It ran.</p></details>
</div>"""


@pytest.fixture(scope="module", params=APPS)
def lab(
    request: pytest.FixtureRequest, shared_model: Any, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LabServer]:
    app: App = request.param
    with LabServer(tmp_path_factory.mktemp("extension"), shared_model.server.environment(), app=app) as server:
        yield server
        server.close_kernels()


def open_saved(lab: LabServer, page: Page, name: str, record: str) -> NotebookPage:
    """A notebook from somewhere else, so that JupyterLab does not trust it."""
    path = lab.write_notebook(f"{name}.ipynb", ["%%agent\nLook at it.", "mine = 1"])
    notebook = nbformat.read(path, as_version=4)
    notebook.cells[0].outputs = [nbformat.v4.new_output("display_data", data={"text/html": record})]
    nbformat.write(notebook, path)
    return NotebookPage(lab, page, path)


def test_keys_in_the_record_of_a_notebook_that_was_opened_again_change_nothing(lab: LabServer, page: Page) -> None:
    notebook = open_saved(lab, page, "keys", RECORD)
    summary = notebook.page.get_by_text("1 call")
    expect(summary).to_be_visible()
    summary.focus()
    before = page.evaluate(NOTEBOOK)
    for key in EVERY_KEY:
        if key != "Enter":
            page.keyboard.press(key)
            assert page.evaluate(NOTEBOOK) == before, f"{key} changed the notebook"
    page.keyboard.press("Enter")
    expect(page.get_by_text("It ran.")).to_be_visible()
    page.keyboard.press("Escape")
    page.keyboard.press("b")
    expect(page.locator(".jp-Cell")).to_have_count(3)
