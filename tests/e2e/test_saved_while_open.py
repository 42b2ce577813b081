"""A notebook that is saved while its run waits: the file says so, a page that loads it has cards, a copy has none."""

import nbformat
from playwright.sync_api import expect

from agent_kernel.testing import call, say
from tests.e2e.conftest import OpenNotebook
from tests.e2e.lab import LabServer, NotebookPage
from tests.e2e.model import WrittenModel
from tests.e2e.records import WIDGET, assert_record_is_saved, bundles

LOAD = "%load_ext agent_kernel"
PLOT = "%%agent\nPlot body mass of the penguins."
WAITING = "Waiting for you: Run Python (run_python)"
DIALOGS = ".jp-Dialog"


def waiting(notebook: NotebookPage, model: WrittenModel) -> NotebookPage:
    """The notebook, with a run that waits for a decision."""
    model.says(call("run_python", code="print('drawn')"), say("A plot of *mass*."))
    notebook.run_through(1)
    notebook.wait_for_state("awaiting_approval")
    return notebook


def assert_it_waits(saved: nbformat.NotebookNode, cell: int = 1) -> None:
    (shown,) = bundles(saved, cell)
    assert WIDGET not in shown
    assert WAITING in shown["text/plain"]
    assert "print('drawn')" in shown["text/html"].replace("&#x27;", "'")


def test_the_cards_are_there_after_a_reload_and_in_a_second_tab_and_no_save_asks_a_question(
    open_notebook: OpenNotebook, model: WrittenModel, lab: LabServer
) -> None:
    notebook = waiting(open_notebook([LOAD, PLOT]), model)
    assert_it_waits(notebook.save())
    before = notebook.path.read_bytes()
    notebook.reload()
    notebook.wait_for_state("awaiting_approval")
    expect(notebook.page.get_by_text(WAITING)).to_have_count(0)
    assert_it_waits(notebook.save())
    assert notebook.path.read_bytes() == before

    other = NotebookPage(lab, notebook.page.context.new_page(), notebook.path)
    other.wait_for_state("awaiting_approval")
    notebook.save()
    other.press("Approve")
    for tab in (notebook, other):
        expect(tab.page.get_by_text("A plot of mass.").first).to_be_visible()
        expect(tab.page.locator(DIALOGS)).to_have_count(0)
        tab.wait_for_end()
    expect(other.record()).to_contain_text("A plot of mass.")
    assert_record_is_saved(notebook.save(), 1, "A plot of", "drawn")

    # The cell runs again: the other tab, and the file, have the record from before.
    model.says(call("run_python", code="print('again')"), say("Another one."))
    notebook.run(1)
    notebook.wait_for_state("awaiting_approval")
    expect(other.cards()).to_have_count(0)
    other.page.locator(".jp-Cell").get_by_role("button", name="Waiting for you: Run Python").click()
    other.wait_for_state("awaiting_approval")
    other.page.close()
    notebook.reload()
    notebook.wait_for_state("awaiting_approval")
    notebook.press("Approve")
    expect(notebook.record()).to_contain_text("Another one.")
    expect(notebook.page.get_by_text("A plot of mass.")).to_have_count(0)


def test_a_notebook_that_is_not_trusted_has_its_cards_and_a_copy_of_it_has_none(
    open_notebook: OpenNotebook, model: WrittenModel, lab: LabServer
) -> None:
    notebook = waiting(open_notebook([LOAD, PLOT]), model)
    saved = notebook.save()
    saved.cells.append(nbformat.v4.new_code_cell("1"))  # written by another program, so it is not as it was signed
    nbformat.write(saved, notebook.path)
    copy = lab.root / "copy.ipynb"
    nbformat.write(saved, copy)

    notebook.reload()
    assert notebook.trusted()[1] is False
    notebook.wait_for_state("awaiting_approval")
    notebook.command("docmanager:open", path=copy.name)
    expect(notebook.page.get_by_text(WAITING)).to_be_visible()
    expect(notebook.cards().and_(notebook.page.locator(":visible"))).to_have_count(0)
    notebook.command("docmanager:open", path=notebook.path.name)
    notebook.press("Approve")
    expect(notebook.page.get_by_text("A plot of mass.").first).to_be_visible()
