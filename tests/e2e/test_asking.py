"""Ways to the agent without its magic: below an error, from menu and keyboard, from the Launcher."""

from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest
from playwright.sync_api import Locator, Page, expect

from agent_kernel.testing import call, say
from tests.e2e.conftest import OpenNotebook
from tests.e2e.lab import LabServer, NotebookPage, close_notebooks
from tests.e2e.model import WrittenModel
from tests.programs import wait_until

ERROR = {
    "output_type": "error",
    "ename": "NameError",
    "evalue": "name 'prise' is not defined",
    "traceback": ["NameError: name 'prise' is not defined"],
}
HAS_KERNEL = "({ session }) => session?.kernel?.status === 'idle'"


def write_failed(lab: LabServer) -> Path:
    """A notebook as it was saved on another day: its first cell has failed."""
    path = lab.write_notebook("failed.ipynb", ["prise * 2", "mine = 1"])
    notebook = nbformat.read(path, as_version=4)
    notebook.cells[0].outputs = [nbformat.from_dict(ERROR)]
    nbformat.write(notebook, path)
    return path


def cell_id(notebook: NotebookPage, index: int) -> str:
    found: str = notebook.page.evaluate(
        "index => window.jupyterapp.shell.currentWidget.content.widgets[index].model.id", index
    )
    return found


def button(notebook: NotebookPage, name: str) -> Locator:
    return notebook.page.get_by_role("button", name=name, exact=True)


def expect_typing_goes_to(notebook: NotebookPage, index: int, prompt: str) -> None:
    """The cell is there, and the cursor is at its end."""
    there = lambda: notebook.sources()[index : index + 1]  # noqa: E731 -- it may not be there yet
    wait_until(lambda: there() == [prompt], f"the prompt {prompt!r}, not {there()!r}")
    expect(notebook.page.locator(".jp-Cell.jp-mod-active .cm-content")).to_be_focused()
    notebook.page.keyboard.type("Why?")
    wait_until(lambda: there() == [f"{prompt}Why?"], "what was typed at the end")


@pytest.fixture(autouse=True)
def close(lab: LabServer, page: Page) -> Iterator[None]:
    yield
    close_notebooks(page)
    lab.close_kernels()


def test_errors_cells_and_outputs_are_asked_about_by_buttons_menu_and_keyboard(
    lab: LabServer, model: WrittenModel, page: Page
) -> None:
    model.says(say("It is a typing error."))
    notebook = NotebookPage(lab, page, write_failed(lab))  # whose kernel has not loaded the agent
    first, second = cell_id(notebook, 0), cell_id(notebook, 1)
    button(notebook, "Fix").focus()
    page.keyboard.press("Enter")
    prompt = f"%%agent\nFix the error of @cell:{first}"
    wait_until(lambda: notebook.sources()[1] == prompt, f"the prompt, not {notebook.sources()[1]!r}")
    expect(notebook.record()).to_contain_text("It is a typing error.")
    assert notebook.save().cells[0].outputs == [ERROR], "buttons are not saved"

    button(notebook, "Explain").click()
    expect_typing_goes_to(notebook, 1, f"%%agent\nExplain the error of @cell:{first}\nChange nothing.\n")
    assert notebook.outputs(1) == []
    notebook.activate(3)
    page.keyboard.press("Escape")
    page.keyboard.press("Alt+j")
    expect_typing_goes_to(notebook, 4, f"%%agent\nAbout @cell:{second}\n")
    page.locator(".jp-OutputArea-output").first.click(button="right")
    page.get_by_role("menuitem", name="Ask the Agent… About This Output").click()
    expect_typing_goes_to(notebook, 1, f"%%agent\nAbout the output of @cell:{first}\n")


RUN_ALL = ["first = 1", "%%agent\nMake radius.", "radius * 2", "%%agent\nMake area.", "area", "'the last'"]


def test_a_cell_that_lacks_what_a_run_makes_is_run_with_the_rest_when_that_has_ended(
    open_notebook: OpenNotebook, model: WrittenModel, page: Page
) -> None:
    makes = [call("run_python", code=code) for code in ("radius = 2", "area = 5")]
    model.says(makes[0], say("Made."), makes[1], say("Made, too."))
    notebook = open_notebook(RUN_ALL)
    notebook.run(2)
    notebook.run(1)
    expect(page.get_by_role("button", name="1 call waits for you")).to_be_visible()
    expect(button(notebook, "Run from here when it ends")).to_have_count(0)  # it failed before the run was asked for
    notebook.activate(2)
    notebook.start("notebook:run-cell")
    expect(page.get_by_text("The run in [2] waits for you ·")).to_be_visible()
    button(notebook, "Run from here when it ends").click()
    notebook.press("Approve")
    expect(notebook.card()).to_contain_text("area = 5")
    assert notebook.text(2) == "4"
    # The same press goes on through what needs the next run.
    expect(button(notebook, "Run from here when it ends")).to_have_attribute("aria-pressed", "true")
    notebook.press("Approve")
    wait_until(lambda: (notebook.text(4), notebook.text(5)) == ("5", "'the last'"), "the last cells to be run")


def test_a_notebook_with_an_agent_begins_with_its_prompt(lab: LabServer, model: WrittenModel, page: Page) -> None:
    model.says(say("Hello."))
    page.goto(f"{lab.url}lab/workspaces/launcher?token={lab.token}")  # else other pages would open what is made here
    page.locator(".jp-LauncherCard", has_text="Notebook with an agent").click()
    expect(page.locator(".jp-Notebook .jp-Cell")).to_have_count(2)
    expect(page.locator(".jp-Cell.jp-mod-active .cm-content")).to_be_focused()
    page.wait_for_function(f"() => ({HAS_KERNEL})(window.jupyterapp.shell.currentWidget.sessionContext)")
    page.keyboard.type("Hello?")
    page.keyboard.press("Control+Enter")
    expect(page.locator("[data-agent-record]")).to_contain_text("Hello.")
    assert model.requests()[0][-1]["content"].startswith("Hello?")
    page.goto("about:blank")  # it was in a workspace of its own
