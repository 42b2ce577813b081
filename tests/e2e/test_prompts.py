"""Prompts in the page: their colours, the tab key, and what they mention."""

from playwright.sync_api import Page, expect

from agent_kernel.testing import call, say
from tests.e2e.conftest import OpenNotebook
from tests.e2e.lab import LOAD_READY
from tests.e2e.model import WrittenModel
from tests.programs import wait_until

MIME_TYPE = "index => window.jupyterapp.shell.currentWidget.content.widgets[index].model.mimeType"
EDIT = """([index, line, column]) => {
  const { content } = window.jupyterapp.shell.currentWidget;
  content.activeCellIndex = index;
  content.mode = "edit";
  content.activeCell.editor.focus();
  content.activeCell.editor.setCursorPosition({ line, column });
}"""
PROSE = "text/x-ipythongfm"
SALES = "sales, sales_of_the_year = {'price': 1.5}, 1\nopen('sales.csv', 'w').write('price\\n1.5\\n');"


def test_a_prompt_is_written_as_prose_completed_by_tab_and_sent_with_what_it_mentions(
    open_notebook: OpenNotebook, model: WrittenModel, page: Page
) -> None:
    model.says(call("run_python", code="1"), say("It is 1.5."))
    prompt = "%%agent --po\nWhat's the price in @sa"
    notebook = open_notebook([LOAD_READY, SALES, prompt, "'it is a text'"])

    def mime_type(index: int) -> str:
        return str(page.evaluate(MIME_TYPE, index))

    assert mime_type(2) == PROSE != mime_type(3)
    notebook.run_through(1)
    assert mime_type(2) == PROSE, "also when the notebook knows its kernel's language"

    def complete(line: int, column: int, wanted: str, text: str) -> None:
        page.evaluate(EDIT, [2, line, column])
        offered = page.locator(".jp-Completer-item", has_text=wanted)

        def pressed() -> bool:
            """JupyterLab offers nothing where the kernel needs more than a second, as it may at first: press again."""
            page.keyboard.press("Tab")
            try:
                wait_until(lambda: offered.count() > 0 or text in notebook.sources()[2], wanted, seconds=3)
            except AssertionError:
                return False
            return True

        wait_until(pressed, f"{wanted} in {notebook.sources()[2]!r}")
        if text not in notebook.sources()[2]:
            offered.first.click()
        wait_until(lambda: text in notebook.sources()[2], f"{text!r} in {notebook.sources()[2]!r}")

    complete(1, 23, "sales.csv", "What's the price in @sales.csv")
    complete(0, 12, "--policy", "%%agent --policy\n")
    notebook.set_source(2, "%%agent\nWhat's the price in @sales.csv and @sales?")
    notebook.run(2)
    notebook.wait_for_state("awaiting_approval")
    notebook.press("Approve")
    expect(notebook.record()).to_contain_text("It is 1.5.")
    asked, _ = model.requests()
    assert "@sales.csv is the file sales.csv (10 bytes), the whole file:\nprice\n1.5" in str(asked[-1]["content"])
