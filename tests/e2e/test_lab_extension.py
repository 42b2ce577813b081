"""What the JupyterLab extension adds to a notebook: cells of code that ran, and ways to what waits."""

from typing import Any, cast

from playwright.sync_api import Page, expect

from agent_kernel.testing import call, calls, say
from tests.e2e.conftest import OpenNotebook
from tests.e2e.lab import LabServer, NotebookPage
from tests.e2e.model import WrittenModel
from tests.e2e.test_keys import CELLS, FOCUS, NOTEBOOK, RUN
from tests.programs import wait_until

WAITS = "Waiting for you: Run Python"


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


def test_a_whole_run_becomes_cells_and_hidden_outputs_lead_to_what_waits(
    open_notebook: OpenNotebook, model: WrittenModel, page: Page
) -> None:
    model.says(
        calls(call("run_python", code="later = 1"), call("run_python", code="edited = 1")),
        call("run_python", code="1 / 0"),
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
    expect(notebook.record()).to_contain_text("All of it.")

    before, code = sources(page), ["edited = 2", "later = 1"]
    page.get_by_role("button", name="Insert all as cells").click()
    expect_inserted(page, before, RUN, code)
    hide_and_find(notebook, model)


def hide_and_find(notebook: NotebookPage, model: WrittenModel) -> None:
    """Hidden outputs say what waits, and lead to it."""
    page = notebook.page
    model.says(call("run_python", code="first = 1"), say("There."))
    notebook.run(RUN)
    notebook.wait_for_state("awaiting_approval")
    notebook.activate(RUN)
    waits = page.locator(".jp-Cell").get_by_role("button", name=WAITS)
    notebook.command("notebook:hide-cell-outputs")
    expect(notebook.card()).not_to_be_visible()
    expect(waits).to_be_visible()  # in place of what stood for the output
    expect(page.locator(".jp-OutputPlaceholder .jp-PlaceholderText:visible")).to_have_count(0)
    waits.click()
    expect(notebook.card()).to_be_focused()
    expect(notebook.card()).to_be_in_viewport()
    page.keyboard.press("a")
    expect(notebook.record()).to_contain_text("There.")
    expect(waits).to_have_count(0)


def test_what_waits_in_the_background_is_counted_on_tabs_and_decided_in_the_panel(
    open_notebook: OpenNotebook, model: WrittenModel, page: Page, lab: LabServer
) -> None:
    model.says(calls(call("run_python", code="first = 1"), call("run_python", code="second = 1")), say("Both."))
    notebook = open_notebook(CELLS)
    notebook.run_through(RUN)
    notebook.wait_for_state("awaiting_approval")
    notebook.command("docmanager:open", path=lab.write_notebook("other.ipynb", ["1 + 1"]).name)
    tab = page.locator(".lm-DockPanel-tabBar .lm-TabBar-tab.agent-kernel-waits")
    expect(tab).to_have_attribute("data-agent-kernel-waits", "2")
    icon = page.locator(".jp-SideBar .lm-TabBar-tab[title^='What Waits and What Ran']")
    expect(icon).to_have_attribute("data-agent-kernel-waits", "2")

    # Nothing waits in the notebook that is in front: the press leads to the list of all.
    page.get_by_role("button", name="2 calls wait for you").click()
    panel = page.get_by_role("region", name="What Waits and What Ran")
    cards = panel.locator("[data-tool-call-id][role=group]")
    run = panel.locator("li", has=page.locator("[data-tool-call-id]"))
    expect(run.locator(".agent-kernel-run-head")).to_contain_text("Waiting for you: Run Python and 1 more · ")
    cards.nth(0).get_by_role("button", name="Approve", exact=True).click()
    expect(cards.nth(0)).to_have_attribute("data-state", "success")
    run.get_by_role("button", name="Go to cell").click()
    expect(notebook.card(1)).to_be_in_viewport()
    notebook.press("Approve", card=1)
    expect(run.locator(".agent-kernel-run-head")).to_contain_text("Done · ")
    expect(tab).to_have_count(0)
