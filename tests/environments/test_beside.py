"""One journey beside what people have installed: a prompt waits, the page is loaded again, all outputs are cleared, a
call is approved, a cell is inserted through the page, the kernel ends. The notebook's own document says all of it,
whoever saves it."""

from pathlib import Path

import nbformat
import pytest
from playwright.sync_api import Page, expect

from agent_kernel.testing import call, say
from tests.e2e.lab import LabServer, NotebookPage
from tests.e2e.model import WrittenModel
from tests.e2e.records import WIDGET
from tests.environments.versions import beside_this_environment, python_beside
from tests.programs import wait_until

pytestmark = [pytest.mark.e2e, pytest.mark.soak, pytest.mark.timeout(1200)]

BESIDE = {
    "jupyter-collaboration": ("jupyterlab<5", "jupyter-collaboration>=5,<6"),
    "jupyter-ai": ("jupyterlab<5", "jupyter-ai>=3.2,<4", "jupyter-server-documents>=0.3,<0.4"),
    "prerelease": ("--pre", "jupyterlab>=4.7.0a1,<5"),
}
PROMPT = "%%agent\nWhat is six times seven?"
SOURCES = "() => window.jupyterapp.shell.currentWidget.content.widgets.map(cell => cell.model.sharedModel.getSource())"


@pytest.fixture(params=BESIDE)
def python(request: pytest.FixtureRequest) -> str:
    return python_beside(request.param, *BESIDE[request.param])


def document(notebook: NotebookPage) -> str:
    """The one output of the prompt's cell, as HTML; "" before it has any."""
    [shown] = notebook.outputs(1)
    assert WIDGET not in shown["data"] or "text/html" not in shown["data"]
    return "".join(shown["data"].get("text/html", ""))


def test_the_document_says_what_waits_and_has_the_record_and_cells_come_through_the_page(
    python: str, model: WrittenModel, page: Page, tmp_path: Path
) -> None:
    variables = beside_this_environment(model.server.environment())
    product, cell = call("run_python", code="product = 6 * 7"), call("insert_cell", source="product")
    model.says(product, cell, say("It is **42**."))
    # Where documents are shared the server saves them, and JupyterLab asks about the file if the page does meanwhile.
    saves = "prerelease" in python
    with LabServer(tmp_path, variables, python=python) as lab:
        notebook = NotebookPage(lab, page, lab.write_notebook("beside.ipynb", ["'before'", PROMPT]))
        record = page.locator(".agent-record")  # a notebook that is not trusted keeps no other attributes
        notebook.run(1)
        notebook.wait_for_state("awaiting_approval")
        wait_until(lambda: "Waiting for you: " in document(notebook), "the document to say what waits")
        if saves:
            notebook.command("docmanager:save")
        wait_until(lambda: "product = 6 * 7" in notebook.path.read_text(), "the file to say what waits")
        notebook.reload()
        notebook.wait_for_state("awaiting_approval")
        notebook.command("notebook:clear-all-cell-outputs")  # a run that is open is shown again
        notebook.wait_for_state("awaiting_approval")
        notebook.press("Approve")
        notebook.wait_for_state("awaiting_approval", card=1)
        notebook.press("Approve", card=1)
        expect(record).to_contain_text("It is 42.")
        wait_until(lambda: "data-agent-record" in document(notebook), "the document to have the record")
        if "jupyter-ai" not in python:  # its documents may be loaded again over a change: server-documents' issue 320
            assert page.evaluate(SOURCES).count("product") == 1
        if saves:
            notebook.command("docmanager:save")
        wait_until(lambda: "data-agent-record" in notebook.path.read_text(), "the file to have the record")
        [saved] = nbformat.read(notebook.path, as_version=4).cells[1].outputs
        assert WIDGET not in saved["data"]
        lab.close_kernels()
        page.reload()
        expect(record).to_contain_text("It is 42.")
        expect(page.get_by_text("model not found")).to_have_count(0)
