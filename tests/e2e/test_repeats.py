"""A run that repeats itself, as a person meets it."""

from playwright.sync_api import Page, expect

from agent_kernel.testing import call, say
from tests.e2e.conftest import OpenNotebook
from tests.e2e.model import WrittenModel
from tests.e2e.test_keys import EVERY_KEY, start

CELLS = [
    "%load_ext agent_kernel\nimport agent_kernel as ak",
    "run = ak.Agent(policy='allow').start('Look until you see something.')",
    "mine = 1",
]


def test_a_run_that_repeats_itself_waits_over_a_reload_and_goes_on_with_ctrl_enter(
    open_notebook: OpenNotebook, model: WrittenModel, page: Page
) -> None:
    model.says(*[call("run_python", code="6 * 7")] * 3, say("It is 42."))
    executor = start(open_notebook, CELLS)
    card = page.get_by_role("group", name="The agent repeats itself")
    expect(card).to_contain_text("run_python gave the same result to the same arguments three times")
    executor.press_for_nothing(card, EVERY_KEY)
    assert executor.hints() == ["Ctrl Enter"]
    executor.notebook.save()
    executor.notebook.reload()
    expect(card).to_be_visible()
    expect(card.get_by_role("button", name="Continue")).to_be_visible()
    card.focus()
    executor.press("Control+Enter")
    expect(page.locator("[data-role=answer]")).to_contain_text("It is 42.")
    expect(page.locator(".ak-raised")).to_contain_text("Told to go on by you")
