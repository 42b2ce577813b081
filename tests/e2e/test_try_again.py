"""A run whose model failed, and that a person tries again."""

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
