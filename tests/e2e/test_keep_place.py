"""Cards grow and fold, and the record is short where they were long: a person reads on where they were."""

from playwright.sync_api import Locator, Page, expect

from agent_kernel.testing import call, calls, say
from tests.e2e.conftest import OpenNotebook
from tests.e2e.model import Gate, WrittenModel
from tests.programs import wait_until


def test_a_reader_keeps_their_place_below_cards_that_come_and_fold_and_sees_the_record_from_within_long_ones(
    open_notebook: OpenNotebook, model: WrittenModel, page: Page
) -> None:
    # An answer streams above what is read before the second card comes.
    long = "A line of an answer.\n\n" * 30
    second = Gate(calls(call("run_python", call_id="c2", code="for i in range(9): print(i)"), text=long))
    answer = Gate(say("Done."))
    model.says(call("run_python", call_id="c1", code="for i in range(20): print(i)"), second, answer)
    other = "# one of many lines\n" * 40
    counts = "%%agent --policy allow\nCount."
    notebook = open_notebook([f"%load_ext agent_kernel\n{other}", counts, "# it is read", other, other, counts])
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

    last = Gate(say("It is done."))
    model.says(call("run_python", code="for i in range(400): print(i)"), last)
    notebook.run(5)
    notebook.wait_for_state("success")
    page.get_by_text("399", exact=False).last.scroll_into_view_if_needed()
    notebook.card().evaluate("card => card.scrollIntoView({block: 'end'})")
    last.open()
    expect(notebook.record().last).to_contain_text("It is done.")
    expect(notebook.record().last).to_be_in_viewport()


def _top(cell: Locator) -> float:
    """As it is drawn."""
    top: float = cell.evaluate(
        """cell => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(
            () => done(cell.getBoundingClientRect().top))))"""
    )
    return top
