"""A notebook that jupytext keeps in two files, a notebook and a script: what the agent changes is in both."""

from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest
from playwright.sync_api import Page, expect

from agent_kernel.testing import call, say
from tests.e2e.lab import LabServer, NotebookPage
from tests.e2e.model import WrittenModel
from tests.environments.versions import beside_this_environment, python_beside
from tests.programs import wait_until

pytestmark = [pytest.mark.e2e, pytest.mark.soak]

PROMPT = "%%agent\nDon't guess: mend the cell above."


@pytest.fixture
def lab(model: WrittenModel, tmp_path: Path) -> Iterator[LabServer]:
    python = python_beside("jupytext", "jupytext>=1.16,<2")
    with LabServer(tmp_path, beside_this_environment(model.server.environment()), python=python) as lab:
        (lab.root / "jupytext.toml").write_text('formats = "ipynb,py:percent"\ncustom_cell_magics = "agent"\n')
        yield lab
        lab.close_kernels()


def test_a_cell_that_is_changed_in_the_page_is_changed_in_both_files(
    lab: LabServer, model: WrittenModel, page: Page
) -> None:
    path = lab.write_notebook("paired.ipynb", ["width = 1", PROMPT])
    cell_id = nbformat.read(path, as_version=4).cells[0].id
    script = path.with_suffix(".py")
    model.says(call("read_notebook"), call("edit_cell", cell_id=cell_id, source="width = 2"), say("Mended."))
    notebook = NotebookPage(lab, page, path)
    notebook.run(0)
    notebook.run(1)
    notebook.wait_for_state("awaiting_approval", card=1)
    notebook.press("Approve", card=1)
    expect(notebook.record()).to_contain_text("Mended.")
    notebook.command("docmanager:save")
    wait_until(lambda: "width = 2" in script.read_text(), "the script to have the change")
    compile(script.read_text(), script.name, "exec")
    assert '# %% language="agent"\n# Don\'t guess: mend the cell above.' in script.read_text()
    assert [cell.source for cell in nbformat.read(path, as_version=4).cells[:2]] == ["width = 2", PROMPT]
