"""A person decides: approve, edit and deny of three calls at once, stop, and the lines that a call's code asks for."""

from playwright.sync_api import expect

from agent_kernel.testing import call, calls, say
from tests.e2e.conftest import OpenNotebook
from tests.e2e.lab import LOAD_READY
from tests.e2e.model import Gate, WrittenModel

CELLS = [
    "%load_ext agent_kernel",
    "%%agent\nDo all three.",
    "[name in globals() for name in ('product', 'limit', 'third')]",
    "%%agent\nWait ten minutes.",
]
LINES = (
    "from getpass import getpass\nname = input('Name: ')\ntoken = getpass('Token: ')\nprint(name, len(token), token)"
)


def test_three_calls_are_approved_edited_and_denied_and_a_run_is_stopped(
    open_notebook: OpenNotebook, model: WrittenModel, end: Gate
) -> None:
    codes = "product = 6 * 7\nprint('the product is', product)", "limit = 10\nprint('limit', limit)", "third = 3"
    sleep = "import time\ntime.sleep(600)"
    model.says(calls(*(call("run_python", code=code) for code in codes)), end, call("run_python", code=sleep))
    notebook = open_notebook(CELLS)
    notebook.run_through(1)
    notebook.wait_for_state("awaiting_approval", card=2)
    expect(notebook.card()).to_contain_text("product = 6 * 7")
    notebook.run(2)
    assert notebook.text(2) == "[False, False, False]", "nothing runs before it is approved"

    notebook.press("Approve")
    notebook.wait_for_state("success")
    expect(notebook.card()).to_contain_text("the product is 42")
    expect(notebook.page.locator("[data-guarded]")).to_have_count(0)
    notebook.press("Edit", card=1)
    # A plain field stands there until the editor has come.
    expect(notebook.card(1).locator(".cm-content")).to_be_focused()
    notebook.page.keyboard.press("ControlOrMeta+a")
    notebook.page.keyboard.insert_text("limit = 25\nprint('limit', limit)")
    notebook.press("Approve", card=1)
    notebook.wait_for_state("success", card=1)
    expect(notebook.card(1)).to_contain_text("limit 25")
    notebook.wait_for_state("awaiting_approval", card=2)
    assert len(model.requests()) == 1, "the model was asked again before all calls had an outcome"
    notebook.press_until_reason("two are enough", card=2)
    notebook.wait_for_state("denied", card=2)
    end.open()
    expect(notebook.record()).to_contain_text("There it is.")
    notebook.run(2)
    assert notebook.text(2) == "[True, True, False]"
    approved, edited, denied = model.tool_results()
    assert approved == "the product is 42"
    assert "changed the arguments" in edited
    assert "limit = 25" in edited
    assert "two are enough" in denied

    notebook.run(3)
    notebook.press("Approve")
    notebook.wait_for_state("executing")
    notebook.page.get_by_role("button", name="Stop", exact=True).click()
    expect(notebook.record().last).to_contain_text("ancelled")


def test_code_gets_the_lines_that_it_asks_for_also_after_a_reload(
    open_notebook: OpenNotebook, model: WrittenModel
) -> None:
    model.says(call("run_python", code=LINES), say("Thank you."))
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
