"""A run of many calls: what is off screen is not laid out, and is there for search, readers, keys and printing."""

import re

from playwright.sync_api import Page, expect

from agent_kernel.testing import call, say
from tests.e2e.conftest import OpenNotebook
from tests.e2e.model import Gate, WrittenModel

CALLS = 60
OPENED = """import agent_kernel as ak
from agent_kernel_widgets.opened import open_widget
conversation_id = ak.last_run().conversation_id
opened = open_widget("0" * 32, conversation_id=conversation_id, run_id="run_1", prompt="Go.", transport="server")"""
LAID_OUT = """() => [...document.querySelectorAll('[data-tool-call-id] .ak-sum')]
    .map(one => one.checkVisibility({ contentVisibilityAuto: true }))"""

LEFT_OUT_ALONE = """() => [...document.querySelectorAll('.ak-run *')]
    .filter(one => getComputedStyle(one).contentVisibility === 'auto').length"""
HEIGHT = "() => document.querySelector('.ak-run').getBoundingClientRect().height"


def test_folded_calls_off_screen_are_not_laid_out_and_are_found_all_the_same(
    open_notebook: OpenNotebook, model: WrittenModel, page: Page, end: Gate
) -> None:
    model.says(*(call("run_python", call_id=f"c{n}", code=f"number_{n} = {n}") for n in range(CALLS)), end)
    notebook = open_notebook(["%load_ext agent_kernel", "%%agent --policy allow\nGo."])
    notebook.run_through(1)
    expect(notebook.cards()).to_have_count(CALLS, timeout=180_000)
    notebook.wait_for_state("success", CALLS - 1)
    notebook.save()
    page.set_viewport_size({"width": 1200, "height": 400})  # a browser lays out two and a half screens
    notebook.reload()
    expect(notebook.cards()).to_have_count(CALLS)
    names = page.get_by_role("group", name="Tool call: run_python")
    expect(names).to_have_count(CALLS)
    # The first is on screen; the one before the last, which is open, is far below.
    page.wait_for_function(f"() => {{ const shown = ({LAID_OUT})(); return shown[0] && !shown[{CALLS - 2}]; }}")
    # A browser looks at each of these in every frame: two groups of 25 calls, and the nine before the open one.
    assert page.evaluate(LEFT_OUT_ALONE) == 2 + 9
    kept = page.evaluate(HEIGHT)
    page.wait_for_function("() => window.find('number_45')")
    page.wait_for_function(f"() => ({LAID_OUT})()[45]")
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
    expect(page.locator(".ak-run")).to_have_attribute("data-status", "complete")


def test_a_conversation_comes_while_the_widgets_are_restored(
    open_notebook: OpenNotebook, model: WrittenModel, page: Page, end: Gate
) -> None:
    model.says(call("run_python", code="1"), end)
    notebook = open_notebook(["%load_ext agent_kernel", "%%agent --policy allow\nGo."])
    notebook.run_through(1)
    notebook.wait_for_state("success", 0)
    notebook.save()
    channels: list[str] = []
    page.on("websocket", lambda socket: channels.append(socket.url) if socket.url.endswith("/channel") else None)
    notebook.reload()
    expect(notebook.cards()).to_have_count(1)
    expect(page.get_by_role("button", name="Stop", exact=True)).to_be_visible()
    assert len(channels) == 1  # the widget takes the one that was there
    # Without a line to the kernel no widget is restored.
    page.route_web_socket(re.compile("/api/kernels/"), lambda _: None)
    with page.expect_websocket(lambda socket: socket.url.endswith("/channel")):
        page.reload()
    end.open()


def test_a_conversation_comes_while_the_view_of_its_widget_is_made(
    open_notebook: OpenNotebook, model: WrittenModel, page: Page
) -> None:
    model.says(say("Done."))
    notebook = open_notebook(["%load_ext agent_kernel", "%agent --wait Go.", OPENED])
    with page.expect_websocket(lambda socket: socket.url.endswith("/channel")) as first:
        notebook.run_through(1)
    if not first.value.is_closed():
        first.value.wait_for_event("close")  # its run is a record now
    with page.expect_websocket(lambda socket: socket.url == first.value.url):
        notebook.run(2)
    expect(page.locator(".ak-run")).to_have_count(0)
