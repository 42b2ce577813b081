"""A run whose model failed, and that a person tries again."""

from dataclasses import replace

from playwright.sync_api import Page, expect

from agent_kernel.testing import call, say
from agent_kernel.testing.wire.reply import failure
from tests.e2e.conftest import OpenNotebook
from tests.e2e.model import WrittenModel

LOAD = "%load_ext agent_kernel\nimport agent_kernel as ak"
STATE = "ak.last_run().status, ak.last_run().text"
ENDED = """import time
while ak.last_run().status == "running":  # the kernel hears of the end beside the page
    time.sleep(0.05)
ak.last_run().status"""


def test_a_run_whose_model_failed_goes_on_where_it_was(
    open_notebook: OpenNotebook, model: WrittenModel, page: Page
) -> None:
    model.says(call("run_python", code="6 * 7"), failure(400, "The model is not well."), say("It is 42."))
    notebook = open_notebook([LOAD, "%%agent --policy allow\nWhat is 6 * 7?", ENDED, STATE])
    notebook.run_through(1)
    expect(page.get_by_role("alert")).to_contain_text("The model did not answer.")
    notebook.run(2)
    assert notebook.text(2) == "'error'"
    page.get_by_role("button", name="Try again").click()
    expect(notebook.record()).to_contain_text("It is 42.")
    notebook.run(3)
    assert notebook.text(3) == "('complete', 'It is 42.')"
    assert [message["role"] for message in model.requests()[-1]] == ["system", "user", "assistant", "tool"]


def test_a_call_that_came_as_text_is_no_answer_and_one_that_was_cut_off_says_so(
    open_notebook: OpenNotebook, model: WrittenModel, page: Page
) -> None:
    written = say('Let me see.\n\n<tool_call>\n{"name": "run_python", "arguments": {"code": "6 * 7"}}\n</tool_call>')
    model.says(written, replace(say("It is 42, because"), finish_reason="length"))
    notebook = open_notebook([LOAD, "%%agent\nWhat is 6 * 7?", STATE])
    notebook.run_through(1)
    expect(page.get_by_role("alert")).to_contain_text(
        "The model wrote a call of run_python as text, so it did not run."
    )
    expect(page.locator(".ak-run")).to_contain_text("Let me see.")
    expect(page.locator(".ak-run")).not_to_contain_text("tool_call")
    page.get_by_role("button", name="Try again").click()
    expect(notebook.record()).to_contain_text("The answer was cut off where it reached its length limit.")
    expect(notebook.record()).to_contain_text("It is 42, because")
    notebook.run(2)
    assert notebook.text(2) == "('complete', 'It is 42, because')"


def test_a_run_that_is_not_tried_again_leaves_its_record_once_something_else_is_asked(
    open_notebook: OpenNotebook, model: WrittenModel, page: Page
) -> None:
    model.says(failure(400, "The model is not well."), say("Something else."))
    notebook = open_notebook([LOAD, "%%agent\nOne.", "%%agent\nTwo."])
    notebook.run_through(1)
    expect(page.get_by_role("button", name="Try again")).to_be_visible()
    notebook.run(2)
    expect(notebook.record()).to_have_count(2)
    expect(notebook.record().first).to_contain_text("The model did not answer.")
    expect(page.get_by_role("button", name="Try again")).to_be_hidden()
