"""A run of many calls: what is off screen is not laid out, and is there for search, readers, keys and printing."""

from playwright.sync_api import Page, expect

from agent_kernel.testing import call
from tests.e2e.conftest import OpenNotebook
from tests.e2e.model import Gate, WrittenModel

CALLS = 40
LAID_OUT = """() => [...document.querySelectorAll('[data-tool-call-id] .ak-sum')]
    .map(one => one.checkVisibility({ contentVisibilityAuto: true }))"""

HEIGHT = """() => [...document.querySelectorAll('[data-tool-call-id]')].slice(0, -1)
    .reduce((sum, card) => sum + card.getBoundingClientRect().height, 0)"""
"""Of the folded calls: the last one, which is open, may not have its whole content yet."""


def test_folded_calls_off_screen_are_not_laid_out_and_are_found_all_the_same(
    open_notebook: OpenNotebook, model: WrittenModel, page: Page, end: Gate
) -> None:
    model.says(*(call("run_python", call_id=f"c{n}", code=f"number_{n} = {n}") for n in range(CALLS)), end)
    notebook = open_notebook(["%load_ext agent_kernel", "%%agent --policy allow\nGo."])
    notebook.run_through(1)
    expect(notebook.cards()).to_have_count(CALLS, timeout=120_000)
    notebook.wait_for_state("success", CALLS - 1)
    notebook.save()
    page.set_viewport_size({"width": 1200, "height": 400})  # a browser lays out two and a half screens
    notebook.reload()
    expect(notebook.cards()).to_have_count(CALLS)
    names = page.get_by_role("group", name="Tool call: run_python")
    expect(names).to_have_count(CALLS)
    # The first is on screen; the one before the last, which is open, is far below.
    page.wait_for_function(f"() => {{ const shown = ({LAID_OUT})(); return shown[0] && !shown[{CALLS - 2}]; }}")
    kept = page.evaluate(HEIGHT)
    page.wait_for_function("() => window.find('number_30')")
    page.wait_for_function(f"() => ({LAID_OUT})()[30]")
    notebook.card(0).focus()
    for _ in range(CALLS - 1):
        page.keyboard.press("ArrowDown")
    expect(notebook.card(CALLS - 1)).to_be_focused()
    expect(notebook.card(CALLS - 1)).to_be_in_viewport()
    page.emulate_media(media="print")
    page.wait_for_function(f"() => ({LAID_OUT})().every(Boolean)")
    page.emulate_media(media="screen")
    assert abs(page.evaluate(HEIGHT) - kept) <= CALLS / 25  # nothing moves when it is laid out
    end.open()
    expect(notebook.record()).to_be_visible()
