"""Cards grow and fold, and the record is short where they were long: a person reads on where they were."""

from playwright.sync_api import Locator, Page, expect

from agent_kernel.testing import call, calls, say
from tests.e2e.conftest import OpenNotebook
from tests.e2e.model import Gate, WrittenModel
from tests.programs import wait_until


def test_a_page_that_is_scrolled_down_in_long_cards_shows_the_record_when_the_run_ends(
    open_notebook: OpenNotebook, model: WrittenModel, page: Page
) -> None:
    answer = Gate(say("It is done."))
    model.says(call("run_python", code="for i in range(400): print(i)"), answer)
    notebook = open_notebook(["%load_ext agent_kernel", "%%agent --policy allow\nCount."])
    notebook.run_through(1)
    notebook.wait_for_state("success")
    page.get_by_text("399", exact=False).last.scroll_into_view_if_needed()
    notebook.card().evaluate("card => card.scrollIntoView({block: 'end'})")
    answer.open()
    expect(notebook.record()).to_contain_text("It is done.")
    expect(notebook.record()).to_be_in_viewport()


def test_a_cell_that_is_read_below_stays_in_its_place_while_cards_come_and_fold_and_the_record_comes(
    open_notebook: OpenNotebook, model: WrittenModel, page: Page
) -> None:
    # An answer streams above what is read before the second card comes.
    long = "A line of an answer.\n\n" * 30
    second = Gate(calls(call("run_python", call_id="c2", code="for i in range(9): print(i)"), text=long))
    answer = Gate(say("Done."))
    model.says(call("run_python", call_id="c1", code="for i in range(20): print(i)"), second, answer)
    other = "# one of many lines\n" * 40
    cells = [f"%load_ext agent_kernel\n{other}", "%%agent --policy allow\nCount.", "# it is read", other, other]
    notebook = open_notebook(cells)
    notebook.run_through(1)
    notebook.wait_for_state("success")
    read = page.locator(".jp-Cell", has_text="# it is read")  # not by its number: cells far above are taken out
    # All of it is in view: else JupyterLab scrolls to the cell that is clicked, some time after the click.
    read.evaluate("cell => cell.scrollIntoView({block: 'center'})")
    read.locator(".cm-line").click()
    top = _top(read)

    def stays() -> bool:
        return abs(_top(read) - top) < 2

    second.open()
    notebook.wait_for_state("success", card=1)
    wait_until(stays, "the cell to be where it was")
    answer.open()
    expect(notebook.record()).to_contain_text("Done.")
    wait_until(stays, "the cell to be where it was when the record has come")


def _top(cell: Locator) -> float:
    """As it is drawn."""
    top: float = cell.evaluate(
        """cell => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(
            () => done(cell.getBoundingClientRect().top))))"""
    )
    return top
