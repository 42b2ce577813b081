"""What the JupyterLab extension adds to notebooks that are opened again, with no widget of ours in the page: in
JupyterLab and in Notebook 7."""

from collections.abc import Iterator
from typing import Any, cast

import nbformat
import pytest
from playwright.sync_api import Page, expect

from agent_kernel.testing import call, calls, say
from tests.e2e.conftest import OpenNotebook
from tests.e2e.lab import App, LabServer, NotebookPage
from tests.e2e.model import WrittenModel
from tests.e2e.test_keys import CELLS, EVERY_KEY, FOCUS, NOTEBOOK, RUN
from tests.programs import wait_until

APPS: tuple[App, ...] = ("jupyterlab", "notebook")
RECORD = """<div class="agent-record" data-agent-record="run_1">
<p><strong>Agent run: complete.</strong></p>
<details><summary>1 call</summary><p>It ran.</p>
<pre><code class="agent-code agent-cell-2">second = 2</code></pre><pre><code class="agent-code">1 / 0</code></pre>
<pre><code class="agent-code agent-cell-1">first = "&lt;b&gt;"</code></pre></details>
</div>"""


@pytest.fixture(scope="module", params=APPS)
def lab(
    request: pytest.FixtureRequest, shared_model: WrittenModel, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LabServer]:
    app: App = request.param
    with LabServer(tmp_path_factory.mktemp("extension"), shared_model.server.environment(), app=app) as server:
        yield server


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
    wait_until(lambda: page.evaluate(FOCUS)["cell"] == 0, "the focus on the cell")
    page.keyboard.press("b")
    expect(page.locator(".jp-Cell")).to_have_count(3)


def sources(page: Page) -> list[tuple[str, int | None]]:
    """Each cell's source and the number of its run."""
    return [(cell[1], cell[2]) for cell in cast("list[list[Any]]", page.evaluate(NOTEBOOK)["cells"])]


def expect_inserted(page: Page, before: list[tuple[str, int | None]], below: int, code: list[str]) -> None:
    """The cells are there and have not run, the first of them has the focus, and Z takes all of them back."""
    after = [*before[: below + 1], *((one, None) for one in code), *before[below + 1 :]]
    wait_until(lambda: sources(page) == after, f"the cells {code}, not {sources(page)}")
    first = {"cell": below + 1, "mode": "command"}
    wait_until(lambda: first.items() <= page.evaluate(FOCUS).items(), "the focus on the first of them")
    page.keyboard.press("z")
    wait_until(lambda: sources(page) == before, "Z to take them back")


def test_the_code_of_a_card_becomes_a_cell_below_and_z_takes_it_back(
    open_notebook: OpenNotebook, model: WrittenModel, page: Page
) -> None:
    model.says(call("run_python", code="first = 1"), say("There."))
    notebook = open_notebook(CELLS)
    notebook.run_through(RUN)
    notebook.wait_for_state("awaiting_approval")
    before = sources(page)
    notebook.press("Insert below as a cell")
    expect_inserted(page, before, RUN, ["first = 1"])
    notebook.wait_for_state("awaiting_approval")
    notebook.press("Approve")
    expect(notebook.record()).to_contain_text("There.")


def test_a_whole_run_becomes_cells_in_the_order_in_which_it_ran_without_what_failed_or_was_denied(
    open_notebook: OpenNotebook, model: WrittenModel, page: Page
) -> None:
    model.says(
        calls(call("run_python", code="later = 1"), call("run_python", code="edited = 1")),
        call("run_python", code="1 / 0"),
        call("run_python", code="denied = 1"),
        call("list_files"),
        call("run_python", code="last = 1\nlast"),
        say("All of it."),
    )
    notebook = open_notebook(CELLS)
    notebook.run_through(RUN)
    notebook.wait_for_state("awaiting_approval", card=1)
    notebook.press("Edit", card=1)
    notebook.card(1).locator(".cm-content").click()
    page.keyboard.press("Control+a")
    page.keyboard.type("edited = 2")
    page.keyboard.press("Control+Enter")
    notebook.wait_for_state("success", card=1)
    expect(page.locator("[data-guarded]")).to_have_count(0)
    notebook.press("Approve")
    notebook.wait_for_state("awaiting_approval", card=2)
    expect(page.locator("[data-guarded]")).to_have_count(0)
    notebook.press("Approve", card=2)
    notebook.wait_for_state("awaiting_approval", card=3)
    notebook.press_until_reason("Not this.", card=3)
    notebook.wait_for_state("awaiting_approval", card=5)
    expect(page.locator("[data-guarded]")).to_have_count(0)
    notebook.press("Approve", card=5)
    expect(notebook.record()).to_contain_text("All of it.")

    before, code = sources(page), ["edited = 2", "later = 1", "last = 1\nlast"]
    record = notebook.outputs(RUN)[0]
    page.get_by_role("button", name="Insert all as cells").click()
    expect_inserted(page, before, RUN, code)
    page.evaluate("index => { window.jupyterapp.shell.currentWidget.content.activeCellIndex = index; }", RUN)
    notebook.command("agent-kernel:insert-run")
    expect_inserted(page, before, RUN, code)
    assert notebook.outputs(RUN)[0] == record
    assert "Insert" not in "".join(notebook.save().cells[RUN].outputs[0]["data"]["text/html"])


def test_code_of_a_record_from_somewhere_else_is_copied_and_becomes_cells(lab: LabServer, page: Page) -> None:
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    notebook = open_saved(lab, page, "elsewhere", RECORD)
    notebook.page.get_by_text("1 call").click()
    page.get_by_role("button", name="Copy").nth(2).click()
    expect(page.get_by_text("Copied")).to_be_visible()
    assert page.evaluate("navigator.clipboard.readText()") == 'first = "<b>"'
    before = sources(page)
    page.get_by_role("button", name="Insert below as a cell").nth(1).click()
    expect_inserted(page, before, 0, ["1 / 0"])
    page.get_by_role("button", name="Insert all as cells").click()
    expect_inserted(page, before, 0, ['first = "<b>"', "second = 2"])


WAITS = "Waiting for you: run_python"


def wait_for_card(notebook: NotebookPage) -> None:
    """It is in view and has the focus, so that a key answers it."""
    expect(notebook.card()).to_be_focused()
    expect(notebook.card()).to_be_in_viewport()


def test_hidden_outputs_say_what_waits_and_lead_to_it(
    open_notebook: OpenNotebook, model: WrittenModel, page: Page
) -> None:
    model.says(call("run_python", code="first = 1"), say("There."))
    notebook = open_notebook(CELLS)
    notebook.run_through(RUN)
    notebook.wait_for_state("awaiting_approval")
    page.evaluate("index => { window.jupyterapp.shell.currentWidget.content.activeCellIndex = index; }", RUN)
    waits = page.locator(".jp-Cell").get_by_role("button", name=WAITS)
    for hide in (["notebook:hide-cell-outputs"], ["notebook:hide-cell-code", "notebook:hide-cell-outputs"]):
        for command in hide:
            notebook.command(command)
        expect(notebook.card()).not_to_be_visible()
        waits.click()
        wait_for_card(notebook)
        expect(waits).to_have_count(0)
    page.keyboard.press("a")
    expect(notebook.record()).to_contain_text("There.")
    notebook.command("notebook:hide-cell-outputs")
    expect(page.get_by_role("button", name="1 call waits for you")).not_to_be_visible()
    expect(waits).to_have_count(0)


def test_a_folded_heading_says_what_waits_below_it(
    open_notebook: OpenNotebook, model: WrittenModel, page: Page
) -> None:
    model.says(call("run_python", code="first = 1"))
    notebook = open_notebook(["# Part one", *CELLS])
    page.evaluate("window.jupyterapp.shell.currentWidget.content.activeCellIndex = 0")
    notebook.command("notebook:change-cell-to-markdown")
    notebook.run_through(RUN + 1)
    notebook.wait_for_state("awaiting_approval")
    # JupyterLab parses a heading some time after the cell has run, and until then the command does nothing.
    page.wait_for_function("() => window.jupyterapp.shell.currentWidget.content.widgets[0].headingInfo?.level === 1")
    page.evaluate("window.jupyterapp.shell.currentWidget.content.activeCellIndex = 0")
    notebook.command("notebook:toggle-heading-collapse")
    expect(notebook.card()).not_to_be_visible()
    page.locator(".jp-Cell").get_by_role("button", name=WAITS).click()
    wait_for_card(notebook)


def test_what_waits_off_screen_in_a_notebook_that_draws_only_what_is_seen_is_found(
    open_notebook: OpenNotebook, model: WrittenModel, page: Page
) -> None:
    model.says(call("run_python", code="first = 1"))
    notebook = open_notebook([*CELLS, *(f"line = {number}\n" * 20 for number in range(40))])
    notebook.run_through(RUN)
    notebook.wait_for_state("awaiting_approval")
    page.evaluate(
        """async () => {
          const { content } = window.jupyterapp.shell.currentWidget;
          content.notebookConfig = { ...content.notebookConfig, windowingMode: 'full' };
          content.activeCellIndex = content.widgets.length - 1;
          await content.scrollToItem(content.widgets.length - 1);
        }"""
    )
    expect(notebook.cards()).not_to_be_in_viewport()
    page.get_by_role("button", name="1 call waits for you").click()
    wait_for_card(notebook)


def test_a_notebook_in_the_background_says_that_something_waits(
    open_notebook: OpenNotebook, model: WrittenModel, page: Page, lab: LabServer
) -> None:
    if lab.app == "notebook":
        pytest.skip("Notebook 7 has one notebook in a page")
    model.says(call("run_python", code="first = 1"))
    notebook = open_notebook(CELLS)
    notebook.run_through(RUN)
    notebook.wait_for_state("awaiting_approval")
    other = lab.write_notebook("other.ipynb", ["1 + 1"])
    notebook.command("docmanager:open", path=other.name)
    expect(notebook.card()).not_to_be_visible()
    page.evaluate("window.jupyterapp.shell.mode = 'multiple-document'")
    expect(page.locator(".lm-TabBar-tab.agent-kernel-waits")).to_have_count(1)
    page.get_by_role("button", name="1 call waits for you").click()
    wait_for_card(notebook)
    notebook.command("agent-kernel:show-waiting")
    wait_for_card(notebook)


def test_a_cell_in_a_kernel_that_has_not_loaded_the_agent_says_what_to_do(
    lab: LabServer, open_notebook: OpenNotebook, model: WrittenModel
) -> None:
    model.says(say("Here I am."))
    notebook = open_notebook(["%%agent\nHello?", "mine = 1"])
    notebook.run(0)
    said = notebook.page.get_by_text("This kernel has not loaded the agent: run %load_ext agent_kernel first.")
    expect(said).to_be_visible()
    assert "has not loaded" not in str(notebook.outputs(0)), "what is saved has only what IPython said"
    notebook.page.get_by_role("button", name="Load it and run again").click()
    expect(notebook.record()).to_contain_text("Here I am.")
    expect(said).to_have_count(0)
