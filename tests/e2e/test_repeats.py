"""A run that repeats itself, as a person meets it."""

from functools import partial

from playwright.sync_api import Locator, Page, expect

from agent_kernel.testing import call, say
from tests.e2e.conftest import OpenNotebook
from tests.e2e.model import WrittenModel
from tests.e2e.test_keys import EVERY_KEY, start
from tests.programs import wait_until

CELLS = [
    "%load_ext agent_kernel\nimport agent_kernel as ak",
    "run = ak.Agent(policy='allow').start('Look until you see something.')",
    "mine = 1",
]


def is_below(part: Locator, other: Locator) -> bool:
    box, above = part.bounding_box(), other.bounding_box()
    return box is not None and above is not None and box["y"] >= above["y"] + above["height"]


def test_a_run_that_repeats_itself_waits_over_a_reload_and_goes_on_with_ctrl_enter(
    open_notebook: OpenNotebook, model: WrittenModel, page: Page
) -> None:
    model.says(*[call("run_python", code="6 * 7")] * 3, say("It is 42."))
    keyboard = start(open_notebook, CELLS)
    card = page.get_by_role("group", name="The agent repeats itself")
    expect(card).to_contain_text("run_python gave the same result to the same arguments three times")
    for width in (820, 620):
        page.set_viewport_size({"width": width, "height": 900})
        words, title = card.locator(".ak-whole"), card.get_by_text("The agent repeats itself", exact=True)
        wait_until(partial(is_below, words, title), f"less than three columns at {width} px")
    keyboard.press_for_nothing(card, EVERY_KEY)
    keyboard.wait_for_hints("Ctrl Enter")
    keyboard.notebook.save()
    keyboard.notebook.reload()
    expect(card).to_be_visible()
    expect(card.get_by_role("button", name="Continue")).to_be_visible()
    card.focus()
    keyboard.press("Control+Enter")
    expect(page.locator("[data-role=answer]")).to_contain_text("It is 42.")
    expect(page.locator(".ak-raised")).to_contain_text("Told to go on by you")
