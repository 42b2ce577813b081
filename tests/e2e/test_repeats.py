"""A run that repeats itself, as a person meets it."""

from playwright.sync_api import Locator, Page, expect

from agent_kernel.testing import call, say
from tests.e2e.conftest import OpenNotebook
from tests.e2e.model import WrittenModel
from tests.e2e.test_keys import EVERY_KEY, start

CELLS = [
    "%load_ext agent_kernel\nimport agent_kernel as ak",
    "run = ak.Agent(policy='allow').start('Look until you see something.')",
    "mine = 1",
]


def top_and_bottom(part: Locator) -> tuple[float, float]:
    box = part.bounding_box()
    assert box is not None
    return box["y"], box["y"] + box["height"]


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
        assert top_and_bottom(words)[0] >= top_and_bottom(title)[1], f"three columns at {width} px"
    keyboard.press_for_nothing(card, EVERY_KEY)
    assert keyboard.hints() == ["Ctrl Enter"]
    keyboard.notebook.save()
    keyboard.notebook.reload()
    expect(card).to_be_visible()
    expect(card.get_by_role("button", name="Continue")).to_be_visible()
    card.focus()
    keyboard.press("Control+Enter")
    expect(page.locator("[data-role=answer]")).to_contain_text("It is 42.")
    expect(page.locator(".ak-raised")).to_contain_text("Told to go on by you")
