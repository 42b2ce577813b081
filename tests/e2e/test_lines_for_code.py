"""`input()` and `getpass()` in a call's code: a field that is still there after a reload."""

from playwright.sync_api import expect

from agent_kernel.testing import call, say
from tests.e2e.conftest import OpenNotebook
from tests.e2e.lab import LOAD_READY
from tests.e2e.model import WrittenModel

CODE = "from getpass import getpass\nname = input('Name: ')\ntoken = getpass('Token: ')\nprint(name, len(token), token)"


def test_code_gets_the_lines_that_it_asks_for_also_after_a_reload(
    open_notebook: OpenNotebook, model: WrittenModel
) -> None:
    model.says(call("run_python", code=CODE), say("Thank you."))
    notebook = open_notebook([LOAD_READY, "%%agent\nAsk me."])
    notebook.run_through(1)
    notebook.press("Approve")
    answer = notebook.card(1).get_by_role("textbox", name="Your answer")
    expect(answer).to_be_visible()
    expect(notebook.page.locator("[data-guarded]")).to_have_count(0)
    answer.fill("Ana")
    answer.press("Enter")
    secret = notebook.card(2).locator("input[type=password]")
    expect(secret).to_be_visible()
    notebook.save()
    notebook.page.reload()  # the kernel is busy: it waits for the line
    expect(notebook.card(2)).to_contain_text("Token:")
    secret.fill("open sesame 42")
    secret.press("Enter")
    expect(notebook.record()).to_contain_text("Thank you.")
    expect(notebook.record()).to_contain_text("Token: ········")
    assert "sesame" not in notebook.page.content()
