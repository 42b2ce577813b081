"""Notebook 7, which hears of keys at another moment than JupyterLab, and has one notebook in a page."""

import re

from playwright.sync_api import Page, expect

from agent_kernel.testing import call, say
from tests.e2e.lab import LabServer, NotebookPage
from tests.e2e.model import Gate, WrittenModel
from tests.e2e.test_keys import KEYS, OF_NOTEBOOKS, Keyboard
from tests.e2e.test_running_again import wait_for_statuses


def test_a_cell_is_run_again_answered_by_keys_and_deleted_while_its_next_run_waits(
    notebook_7: LabServer, model: WrittenModel, page: Page
) -> None:
    end = Gate(say("There."))
    model.says(*(call("run_python", code=f"print({number})") for number in range(2)), end, call("run_python", code="2"))
    path = notebook_7.write_notebook("seven.ipynb", ["%load_ext agent_kernel", "%%agent\nAgain.", "6 * 7"])
    notebook = NotebookPage(notebook_7, page, path)
    keyboard = Keyboard(notebook)
    notebook.run_through(1)
    notebook.wait_for_state("awaiting_approval")
    notebook.run(1)
    expect(notebook.card()).to_contain_text("print(1)")
    notebook.wait_for_state("awaiting_approval")
    wait_for_statuses(notebook_7, "Again.", ["cancelled", "running"])

    keyboard.press_for_nothing(notebook.card(), KEYS)
    keyboard.press("a")
    notebook.wait_for_state("success")
    keyboard.free()
    keyboard.press_for_nothing(notebook.card(), OF_NOTEBOOKS)
    end.open()
    expect(notebook.record()).to_contain_text("There.")
    keyboard.wait_for_focus(cell=1, mode="command")

    notebook.run(1)
    notebook.wait_for_state("awaiting_approval")
    notebook.command("notebook:delete-cell")
    expect(notebook.cards()).to_have_count(0)  # the page has said that it shows the run no more
    notebook.run(1)
    assert notebook.text(1) == "42"
    wait_for_statuses(notebook_7, "Again.", ["cancelled", "complete", "cancelled"])


OTHER_VERSION = re.compile(r"agent-kernel/static/(cards|part)-")
LAB_EXTENSION = re.compile(r"lab/extensions/agent-kernel[^/]*/static/remoteEntry")


def test_a_page_whose_server_has_another_version_draws_cards_by_what_the_kernel_has(
    notebook_7: LabServer, model: WrittenModel, fresh_page: Page
) -> None:
    missing: list[str] = []
    fresh_page.route(OTHER_VERSION, lambda route: (missing.append(route.request.url), route.fulfill(status=404)))
    fresh_page.route(LAB_EXTENSION, lambda route: route.abort())
    model.says(call("run_python", code="print(6 * 7)"), say("It is 42."))
    path = notebook_7.write_notebook("versions.ipynb", ["%load_ext agent_kernel", "%%agent\nSix times seven?"])
    notebook = NotebookPage(notebook_7, fresh_page, path)
    notebook.run_through(1)
    notebook.press("Approve")
    expect(notebook.record()).to_contain_text("It is 42.")
    assert missing
