"""The code of a run is the user's: `%agent code` puts it into a cell below."""

from playwright.sync_api import expect

from agent_kernel.testing import call, say
from tests.e2e.conftest import OpenNotebook
from tests.e2e.model import WrittenModel
from tests.programs import wait_until

SOURCES = "() => window.jupyterapp.shell.currentWidget.content.widgets.map(cell => cell.model.sharedModel.getSource())"


def test_agent_code_puts_the_code_of_the_last_run_into_a_cell_below(
    open_notebook: OpenNotebook, model: WrittenModel
) -> None:
    model.says(
        call("run_python", code="product = 6 * 7"), call("run_python", code="print(product)"), say("It is **42**.")
    )
    notebook = open_notebook(["%load_ext agent_kernel", "%%agent\nSix times seven?", "%agent code", "'mine'"])
    notebook.run(0)
    notebook.run(1)
    for number in range(2):
        notebook.wait_for_state("awaiting_approval", card=number)
        notebook.press("Approve", card=number)
    expect(notebook.record()).to_contain_text("It is 42.")
    notebook.run(2)

    def sources() -> list[str]:
        found: list[str] = notebook.page.evaluate(SOURCES)
        return found

    wait_until(lambda: len(sources()) == 5, "a cell more")
    assert sources()[3:] == ["# %%\nproduct = 6 * 7\n\n# %%\nprint(product)", "'mine'"]
    notebook.run(3)
    assert notebook.text(3) == "42"
    notebook.page.evaluate("() => { window.jupyterapp.shell.currentWidget.content.activeCellIndex = 3; }")
    notebook.command("notebook:undo-cell-action")
    wait_until(lambda: len(sources()) == 4, "the cell that came to be gone again")


def test_the_buttons_of_a_narrow_cards_code_leave_its_lines_alone(
    open_notebook: OpenNotebook, model: WrittenModel
) -> None:
    model.says(call("run_python", code="missing = sales.isna().sum()\nprint(missing)"))
    notebook = open_notebook(["%load_ext agent_kernel", "%%agent\nWhat is missing?"])
    notebook.run(0)
    notebook.run(1)
    notebook.wait_for_state("awaiting_approval")
    card = notebook.page.locator("[data-role=code]")

    def first_line() -> tuple[float, float]:
        """From where its text begins to where the last button ends, and its height, in lines."""
        return tuple(
            card.evaluate(
                """(code) => {
                  const lines = [...code.querySelectorAll(".ak-l")].map((line) => line.getBoundingClientRect());
                  const buttons = [...code.parentElement.querySelectorAll(".ak-copy")];
                  const end = Math.max(...buttons.map((button) => button.getBoundingClientRect().bottom));
                  return [lines[0].top - end, lines[0].height / lines[1].height];
                }"""
            )
        )

    notebook.page.set_viewport_size({"width": 1200, "height": 900})
    wait_until(lambda: first_line()[0] < 0, "the buttons beside the first line")
    notebook.page.set_viewport_size({"width": 500, "height": 900})
    wait_until(lambda: first_line()[0] >= 0, "the buttons above the first line")
    assert first_line()[1] == 1
