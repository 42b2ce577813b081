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


def test_a_failing_cell_that_was_told_with_the_prompt_is_mended_without_reading_the_notebook(
    open_cells: OpenCells, model: WrittenModel
) -> None:
    model.says(call("edit_cell", cell_id="cell:c1", source="total = 1", run=True), say("Mended."))
    notebook = open_cells("total = nothing", "%%agent\nMend the cell above.")
    notebook.run_through(2)
    notebook.press("Approve")
    expect(notebook.record()).to_contain_text("Mended.")
    assert source(notebook, 1) == "total = 1"
    assert notebook.outputs(1) == []


def asked_to_edit(open_cells: OpenCells, model: WrittenModel, *cells: str, **metadata: dict[str, Any]) -> NotebookPage:
    """A notebook whose agent has read it and waits with an edit of the cell c1."""
    edit = call("edit_cell", cell_id="c1", source="mended = 1")
    model.says(call("read_notebook"), edit, say("I see."))
    notebook = open_cells(*(cells or ("broken = 0",)), "%%agent\nMend the cell above.", **metadata)
    notebook.run(0)
    notebook.page.evaluate(RUN_LAST)
    notebook.wait_for_state("awaiting_approval", card=1)
    return notebook


RUN_LAST = """async () => {
  const { shell, commands } = window.jupyterapp;
  const notebook = shell.currentWidget.content;
  notebook.activeCellIndex = notebook.widgets.length - 1;
  await commands.execute('notebook:run-cell');
}"""


def test_a_card_turns_stale_as_soon_as_the_user_types_in_its_cell_and_the_model_is_told(
    open_cells: OpenCells, model: WrittenModel
) -> None:
    notebook = asked_to_edit(open_cells, model)
    stale = notebook.card(1).locator("[data-stale]")
    notebook.page.evaluate(SET_SOURCE, [1, "broken = 12"])
    expect(stale).to_contain_text("The cell has changed.")
    notebook.page.evaluate(SET_SOURCE, [1, "broken = 0"])
    expect(stale).to_have_count(0)
    notebook.page.evaluate(SET_SOURCE, [1, "broken = 12"])
    expect(stale).to_be_visible()
    notebook.press("Approve", card=1)
    expect(notebook.record()).to_contain_text("I see.")
    assert source(notebook, 1) == "broken = 12"
    assert "-broken = 0\n+broken = 12" in model.tool_results()[1]


@pytest.mark.parametrize(
    ("script", "text"),
    [
        ("model => model.deleteCell(1)", "There is no cell c1 in the notebook now."),
        ("model => model.moveCell(1, 2)", "Edited cell:c1"),
        ("model => model.getCell(1).setMetadata('editable', false)", "is locked"),
    ],
    ids=["deleted", "moved", "locked"],
)
def test_a_cell_that_is_deleted_moved_or_locked_while_its_card_waits(
    open_cells: OpenCells, model: WrittenModel, script: str, text: str
) -> None:
    notebook = asked_to_edit(open_cells, model, "broken = 0", "other = 1")
    notebook.page.evaluate(f"() => ({script})(window.jupyterapp.shell.currentWidget.content.model.sharedModel)")
    notebook.press("Approve", card=1)
    expect(notebook.record()).to_contain_text("I see.")
    assert text in model.tool_results()[1]


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
    notebook = open_cells("x = 1 / 0", "# to be deleted", "%%agent --policy allow\nTidy up.")
    notebook.run(0)
    notebook.page.evaluate(RUN_LAST)
    expect(notebook.record()).to_contain_text("Done.")
    sources = notebook.page.evaluate(SOURCES)
    assert sources[:3] == ["x = 1 / 0", LOAD_READY, "first = 1\nfirst"]
    assert len(sources) == 4
    inserted, moved, deleted, ran, own = model.tool_results()[1:]
    assert "--- output: 1" in inserted
    assert moved.startswith("Moved cell:c1")
    assert deleted.startswith("Deleted cell:c2")
    assert "ZeroDivisionError: division by zero" in ran
    assert "is the one of the prompt itself" in own
    assert notebook.outputs(0)[0]["ename"] == "ZeroDivisionError"
    notebook.page.evaluate(SET_SOURCE, [2, "first = 2"])
    notebook.page.get_by_role("button", name="Undo this run").click()
    expect(notebook.record()).to_contain_text("Undone: cell:c1 is as it was before.")
    expect(notebook.record()).to_contain_text(" was changed since. Undo would lose that, so it is not offered.")
    assert notebook.page.evaluate(SOURCES)[:4] == [LOAD_READY, "x = 1 / 0", "first = 2", "# to be deleted"]
    assert notebook.page.evaluate(IDS)[3] == "c2"
    notebook.page.evaluate(SET_SOURCE, [2, "%agent undo run"])
    notebook.run(2)
    deleted, moved, inserted, stays = notebook.outputs(2)[0]["text"].splitlines()
    assert (deleted, moved) == ("  cell:c2 (delete_cell): undone", "  cell:c1 (move_cell): undone")
    assert inserted.endswith(" was changed since. Nothing was put back.")
    assert stays == "What the kernel computed stays as it is."


def test_stop_interrupts_the_cell_that_the_agent_runs(open_cells: OpenCells, model: WrittenModel) -> None:
    model.says(call("read_notebook"), call("run_cell", cell_id="c1"))
    cell = "import time\nprint('begun')\ntime.sleep(600)"
    notebook = open_cells(cell, "%%agent --policy allow\nRun the cell above.")
    notebook.run(0)
    notebook.page.evaluate(RUN_LAST)
    notebook.page.wait_for_function(
        "() => window.jupyterapp.shell.currentWidget.content.widgets[1].model.sharedModel.getOutputs().length > 0"
    )
    notebook.page.get_by_role("button", name="Stop", exact=True).click()
    notebook.wait_for_end()
    notebook.wait_until_idle()
    assert notebook.outputs(1)[-1]["ename"] == "KeyboardInterrupt"


def test_where_the_prompts_cell_waits_for_its_run_no_other_cell_is_run(
    open_cells: OpenCells, model: WrittenModel
) -> None:
    model.says(call("read_notebook"), call("run_cell", cell_id="c1"), say("I see."))
    notebook = open_cells("x = 1", "%%agent --wait --policy allow\nRun the cell above.")
    notebook.run(0)
    notebook.page.evaluate(RUN_LAST)
    expect(notebook.record()).to_contain_text("I see.")
    assert "Use run_python" in model.tool_results()[1]


def test_of_two_tabs_the_one_that_was_looked_at_last_is_changed(
    open_cells: OpenCells, lab: LabServer, page: Page, model: WrittenModel
) -> None:
    notebook = asked_to_edit(open_cells, model)
    other = NotebookPage(lab, page.context.new_page(), notebook.path)
    other.page.bring_to_front()
    other.page.evaluate("() => document.dispatchEvent(new Event('visibilitychange'))")
    notebook.press("Approve", card=1)
    expect(notebook.record()).to_contain_text("I see.")
    assert (source(notebook, 1), source(other, 1)) == ("broken = 0", "mended = 1")


def test_a_page_that_is_loaded_again_before_the_approval_shows_the_edit(
    open_cells: OpenCells, model: WrittenModel
) -> None:
    notebook = asked_to_edit(open_cells, model)
    notebook.save()
    notebook.reload()
    notebook.wait_for_state("awaiting_approval", card=1)
    notebook.press("Approve", card=1)
    notebook.wait_for_end()
    assert source(notebook, 1) == "mended = 1"


def test_a_raw_cell_is_not_run_and_an_edit_gives_no_trust_to_what_others_have_put_there(
    open_cells: OpenCells, model: WrittenModel
) -> None:
    model.says(
        call("read_notebook"),
        call("edit_cell", cell_id="c1", source="2 + 2"),
        call("run_cell", cell_id="c2"),
        say("Done."),
    )
    notebook = open_cells("1 + 1", "no code", "'shown'", "%%agent\nGo on.")
    written = nbformat.read(notebook.path, as_version=4)
    written.cells[2] = nbformat.v4.new_raw_cell("no code", id="c2")
    written.cells[3].outputs = [nbformat.v4.new_output("display_data", {"text/html": "<script>1</script>"})]
    nbformat.write(written, notebook.path)
    notebook.reload()
    notebook.run(0)
    notebook.run(4)
    for card in (1, 2):
        notebook.wait_for_state("awaiting_approval", card=card)
        notebook.press("Approve", card=card)
    expect(notebook.record()).to_contain_text("Done.")
    assert "The cell c2 is of a type that can't be run." in model.tool_results()[-1]
    assert source(notebook, 1) == "2 + 2"
    trusted = "() => window.jupyterapp.shell.currentWidget.content.widgets[3].model.trusted"
    assert notebook.page.evaluate(trusted) is False
