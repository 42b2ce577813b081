"""JupyterLab without the extension and with another ipykernel: cards over the widget's messages, in a browser."""

from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest
from playwright.sync_api import Page, expect

from agent_kernel.testing import call, say
from tests.e2e.lab import LabServer, NotebookPage
from tests.e2e.model import WrittenModel
from tests.environments.versions import python_with, write_kernelspec
from tests.programs import wait_until

pytestmark = [pytest.mark.e2e, pytest.mark.soak]

COLD_SECONDS = 90  # a kernel that has run no agent yet imports the graph first
CELLS = [
    "import agent_kernel as ak\nimport ipykernel\nipykernel.__version__",
    "run = ak.Agent().run('Six times seven?')\nprint('the cell went on')",
    "product",
]


@pytest.fixture
def notebook(version: str, model: WrittenModel, page: Page, tmp_path: Path) -> Iterator[NotebookPage]:
    model.says(call("run_python", code="product = 6 * 7\nprint('the product is', product)"), say("It is 42."))
    with LabServer(tmp_path, model.server.environment(), extension=False) as lab:
        kernel = write_kernelspec(lab.home / "data", python_with(version))
        path = lab.write_notebook("waits.ipynb", CELLS)
        written = nbformat.read(path, as_version=4)
        written.metadata.kernelspec = {"name": kernel, "display_name": "Other", "language": "python"}
        nbformat.write(written, path)
        yield NotebookPage(lab, page, path)
        lab.close_kernels()


def start(notebook: NotebookPage, version: str) -> None:
    notebook.run(0)
    assert notebook.text(0) == repr(version)
    notebook.run(1, wait=False)
    notebook.wait_for_state("awaiting_approval", seconds=COLD_SECONDS)


def test_a_click_counts_while_the_cell_waits_and_the_cell_behind_it_runs_after_it(
    notebook: NotebookPage, version: str, model: WrittenModel
) -> None:
    start(notebook, version)
    notebook.run(2, wait=False)
    notebook.press("Approve")
    expect(notebook.record()).to_contain_text("It is 42.")
    wait_until(lambda: notebook.text(2) == "42", "the cell behind it")
    assert notebook.text(1).endswith("the cell went on")
    wait_until(lambda: [notebook.prompt_number(index) for index in range(3)] == [1, 2, 3], "the numbers of the cells")
    assert model.tool_results() == ["the product is 42"]
