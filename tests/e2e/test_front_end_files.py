"""The front end comes from the server, once for a page."""

import re

from playwright.sync_api import Page, expect

from agent_kernel.testing import call
from tests.e2e.conftest import OpenNotebook
from tests.e2e.model import Gate, WrittenModel

FILES = re.compile("/agent-kernel/static/(cards|part)-")


def test_cards_that_can_not_be_loaded_say_what_to_do_and_come_when_they_can(
    open_notebook: OpenNotebook, model: WrittenModel, fresh_page: Page, end: Gate
) -> None:
    fresh_page.route(FILES, lambda route: route.abort())
    model.says(call("run_python", code="x = 1"), end)
    notebook = open_notebook(["%load_ext agent_kernel", "%%agent\nAct."], fresh_page)
    notebook.run_through(1)
    expect(fresh_page.get_by_role("alert")).to_contain_text("Try again, reload the page, or stop the Jupyter server")
    fresh_page.unroute(FILES)
    fresh_page.get_by_role("button", name="Try again", exact=True).click()
    notebook.wait_for_state("awaiting_approval")
    notebook.press("Approve")
    end.open()
    expect(notebook.record()).to_be_visible()
