"""The record is short where the cards were long."""

from playwright.sync_api import Page, expect

from agent_kernel.testing import call, say
from tests.e2e.conftest import OpenNotebook
from tests.e2e.model import Gate, WrittenModel


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
