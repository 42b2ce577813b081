"""What the JupyterLab extension adds to a notebook: cells of code that ran, and ways to what waits."""

import re
from contextlib import suppress
from typing import Any, cast

from playwright.sync_api import Error, Page, Route, expect

from agent_kernel.testing import call, calls, say
from tests.e2e.conftest import OpenNotebook
from tests.e2e.lab import LabServer, NotebookPage
from tests.e2e.model import WrittenModel
from tests.e2e.test_keys import CELLS, FOCUS, NOTEBOOK, RUN
from tests.programs import wait_until

WAITS = "Waiting for you: Run Python"
PRESS_AGAIN_MS = 5_000
RUNS = 500
LAID_OUT = "heads => heads.map(head => head.firstChild.checkVisibility({ contentVisibilityAuto: true }))"
WATCH = """panel => {
  window.changes = [];
  const watch = new MutationObserver(changes => window.changes.push(...changes.map(
    ({ type, attributeName, target }) => `${type} ${attributeName} of ${target.outerHTML?.slice(0, 100)}`)));
  watch.observe(panel.lastElementChild, { childList: true, subtree: true, characterData: true, attributes: true });
}"""


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
        call("run_python", code="denied = 1"),
        call("list_files"),
        call("run_python", code="last = 1\nlast"),
        say("All of it."),
    )
    page.set_viewport_size({"width": 950, "height": 900})  # where a note has a line of its own below the buttons
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
    notebook.activate(RUN)
    notebook.command("agent-kernel:insert-run")
    expect_inserted(page, before, RUN, code)
    assert notebook.outputs(RUN)[0] == record
    assert "Insert" not in "".join(notebook.save().cells[RUN].outputs[0]["data"]["text/html"])
    hide_and_find(notebook, model)


def hide_and_find(notebook: NotebookPage, model: WrittenModel) -> None:
    """Hidden outputs say what waits, and lead to it."""
    page = notebook.page
    model.says(call("run_python", code="first = 1"), say("There."))
    notebook.run(RUN)
    notebook.wait_for_state("awaiting_approval")
    notebook.activate(RUN)
    waits = page.locator(".jp-Cell").get_by_role("button", name=WAITS)
    for hide in (["notebook:hide-cell-outputs"], ["notebook:hide-cell-code", "notebook:hide-cell-outputs"]):
        for command in hide:
            notebook.command(command)
        expect(notebook.card()).not_to_be_visible()
        expect(waits).to_be_visible()  # in place of what stood for the output, for which there may be no room
        expect(page.locator(".jp-OutputPlaceholder .jp-PlaceholderText:visible")).to_have_count(0)
        waits.click()
        wait_for_card(notebook)
        expect(waits).to_have_count(0)
    page.keyboard.press("a")
    expect(notebook.record()).to_contain_text("There.")
    notebook.command("notebook:hide-cell-outputs")
    expect(page.get_by_role("button", name="1 call waits for you")).not_to_be_visible()
    expect(waits).to_have_count(0)


def wait_for_card(notebook: NotebookPage) -> None:
    """It is in view and has the focus, so that a key answers it."""
    expect(notebook.card()).to_be_focused()
    expect(notebook.card()).to_be_in_viewport()


def test_what_waits_in_the_background_is_counted_on_tabs_and_decided_in_the_panel(
    open_notebook: OpenNotebook, model: WrittenModel, page: Page, lab: LabServer
) -> None:
    model.says(calls(call("run_python", code="first = 1"), call("run_python", code="second = 1")), say("Both."))
    notebook = open_notebook(CELLS)
    notebook.run_through(RUN)
    notebook.wait_for_state("awaiting_approval")
    notebook.save()
    page.goto(f"{lab.url}lab/workspaces/panel/tree/{notebook.path.name}?token={lab.token}")
    notebook.wait_for_state("awaiting_approval")
    other = lab.write_notebook("other.ipynb", ["1 + 1"])
    notebook.command("docmanager:open", path=other.name)
    wait_until(lambda: other.name in str(lab.api("GET", "lab/api/workspaces/panel")), "the page's layout to be kept")
    page.reload()  # with the other notebook in front
    tab = page.locator(".lm-DockPanel-tabBar .lm-TabBar-tab.agent-kernel-waits")
    expect(page.locator(".lm-DockPanel-tabBar .lm-TabBar-tab")).to_have_count(2)
    expect(tab).to_have_attribute("data-agent-kernel-waits", "2")
    icon = page.locator(".jp-SideBar .lm-TabBar-tab[title^='What Waits and What Ran']")
    expect(icon).to_have_attribute("data-agent-kernel-waits", "2")

    # Nothing waits in the notebook that is in front: the press leads to the list of all.
    page.get_by_role("button", name="2 calls wait for you").click()
    panel = page.get_by_role("region", name="What Waits and What Ran")
    cards = panel.locator("[data-tool-call-id][role=group]")
    run = panel.locator("li", has=page.locator("[data-tool-call-id]"))
    expect(run.locator(".agent-kernel-run-head")).to_contain_text("Waiting for you: Run Python and 1 more · ")
    # No keys: JupyterLab gives the focus to a restored notebook some time after it was loaded.
    cards.nth(0).get_by_role("button", name="Approve", exact=True).click()
    expect(cards.nth(0)).to_have_attribute("data-state", "success")
    card = page.locator(".jp-Notebook [data-tool-call-id][role=group]").nth(1)

    def is_approved_in_its_cell() -> bool:
        """JupyterLab may bring the restored notebook to the front meanwhile: a person presses again then."""
        run.get_by_role("button", name="Go to cell").click()
        with suppress(AssertionError, Error):
            expect(card).to_be_in_viewport(timeout=PRESS_AGAIN_MS)
            card.get_by_role("button", name="Approve", exact=True).click(timeout=PRESS_AGAIN_MS)
            return True
        return False

    wait_until(is_approved_in_its_cell, "a press in the cell")
    expect(run.locator(".agent-kernel-run-head")).to_contain_text("Done · ")
    expect(tab).to_have_count(0)
    page.goto("about:blank")  # it was in a workspace of its own


def ended_run(number: int) -> dict[str, Any]:
    began = f"2026-11-20T{number // 60:02}:{number % 60:02}"
    return {
        "run_id": f"run_{number}",
        "conversation_id": "conv",
        "status": "complete",
        "prompt": f"Prompt {number}",
        "notebook": f"{number % 5}.ipynb",
        "kernel_id": None,
        "cell_id": "cell",
        "waits_for": [],
        "shown": False,
        "started_at": f"{began}:00Z",
        "ended_at": f"{began}:02Z",
        "usage": {"cost": 0.004, "cost_is_partial": False},
    }


def test_the_panel_lays_out_what_is_in_view_of_500_runs_and_draws_nothing_again(
    open_notebook: OpenNotebook, page: Page
) -> None:
    asked: list[str] = []

    def answer(route: Route) -> None:
        asked.append(re.sub(r"&\d+$", "", route.request.url.partition("?")[2]))  # JupyterLab adds the time
        route.fulfill(json=[ended_run(number) for number in range(RUNS)] if asked[-1] == f"limit={RUNS}" else [])

    page.route("**/agent-kernel/api/runs?*", answer)
    notebook = open_notebook(["1 + 1"])
    notebook.command("agent-kernel:show-runs")
    panel = page.get_by_role("region", name="What Waits and What Ran")
    heads = panel.locator(".agent-kernel-run-head")
    expect(heads).to_have_count(RUNS)
    wait_until(lambda: 0 < heads.evaluate_all(LAID_OUT).count(True) < RUNS / 5, "few of the runs to be laid out")
    heads.first.focus()
    page.keyboard.press("ArrowDown")
    expect(heads.nth(1)).to_be_focused()
    page.keyboard.press("End")
    expect(heads.last).to_be_focused()
    expect(heads.last).to_be_in_viewport()
    panel.evaluate(WATCH)
    for _ in range(2):  # the first may have been on its way before
        with page.expect_response(lambda answer: f"limit={RUNS}" in answer.url):
            pass
    assert page.evaluate("window.changes") == []
    assert set(asked) <= {f"limit={RUNS}", "state=open&limit=0"}, "nothing is asked for each run"
