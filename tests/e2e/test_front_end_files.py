"""The front end comes from the server, once for a page, and from the kernel where the server does not have it."""

import re
from collections.abc import Callable
from functools import partial

import pytest
from playwright.sync_api import Page, WebSocket, expect

from agent_kernel.testing import call, say
from tests.e2e.conftest import OpenNotebook
from tests.e2e.model import Gate, WrittenModel
from tests.programs import wait_until

LOAD = "%load_ext agent_kernel"
FILES = re.compile("/agent-kernel/static/(cards|part)-")


@pytest.fixture
def asked(page: Page) -> list[str]:
    """The files of the front end that the page asks for."""
    names: list[str] = []
    page.on("request", lambda request: FILES.search(request.url) and names.append(request.url.rpartition("/")[2]))
    return names


@pytest.fixture
def widget_bytes(page: Page) -> Callable[[], int]:
    """How many bytes of widgets and displays the page has received from its kernel."""
    sizes: list[int] = []

    def note(frame: str | bytes) -> None:
        data = frame if isinstance(frame, bytes) else frame.encode()
        if re.search(rb"comm_(open|msg)|display_data", data):
            sizes.append(len(data))

    def watch(socket: WebSocket) -> None:
        if "/api/kernels/" in socket.url:
            socket.on("framereceived", note)

    page.on("websocket", watch)
    return lambda: sum(sizes)


def is_over(measure: Callable[[], int], least: int) -> bool:
    return measure() > least


def test_a_run_sends_the_page_a_loader_and_the_front_end_comes_once(
    open_notebook: OpenNotebook,
    model: WrittenModel,
    page: Page,
    asked: list[str],
    widget_bytes: Callable[[], int],
    end: Gate,
) -> None:
    model.says(
        call("run_python", call_id="a", code="x = 1"), say("Done."), call("run_python", call_id="b", code="y = 1"), end
    )
    notebook = open_notebook([LOAD, "%%agent\nAct.", "%%agent\nAct again."])
    notebook.run(0)
    for cell in (1, 2):
        before = widget_bytes()
        notebook.run(cell)
        notebook.wait_for_state("awaiting_approval")
        enough = before + 2_000
        wait_until(partial(is_over, widget_bytes, enough), "the frames that the page has received to be reported")
        assert widget_bytes() - before < 10_000
        expect(notebook.card().locator("[data-role=code] .ak-t-n")).to_have_text("1")
        assert len([name for name in asked if name.startswith("cards-")]) == 1
        assert len(set(asked)) == len(asked)
        if cell == 1:
            notebook.press("Approve")
            expect(notebook.record()).to_be_visible()
            notebook.wait_until_idle()
    before_editing = len(asked)
    notebook.press("Edit")
    expect(notebook.card().locator(".cm-content")).to_be_focused()
    wait_until(lambda: len(asked) > before_editing, "the editor to have been asked for")
    notebook.save()
    notebook.reload()
    notebook.wait_for_state("awaiting_approval")
    notebook.press("Approve")
    notebook.wait_for_state("success")
    end.open()
    expect(page.locator("[data-role=answer].ak-answer")).to_contain_text("There it is.")


def test_a_page_whose_server_has_another_version_gets_the_cards_from_the_kernel(
    open_notebook: OpenNotebook, model: WrittenModel, page: Page, end: Gate
) -> None:
    page.route(FILES, lambda route: route.fulfill(status=404, body="not here"))
    model.says(call("run_python", code="x = 40 + 2"), end)
    notebook = open_notebook([LOAD, "%%agent\nAct."])
    notebook.run_through(1)
    notebook.wait_for_state("awaiting_approval")
    # All of it came in one: the highlighter and the editor too.
    expect(notebook.card().locator("[data-role=code] .ak-t-n").first).to_have_text("40")
    notebook.press("Edit")
    expect(notebook.card().locator(".cm-content")).to_be_focused()
    notebook.page.keyboard.press("Escape")
    notebook.press("Approve")
    notebook.wait_for_state("success")
    end.open()
    expect(notebook.record()).to_be_visible()


def test_cards_that_can_not_be_loaded_say_what_to_do_and_come_when_they_can(
    open_notebook: OpenNotebook, model: WrittenModel, page: Page, end: Gate
) -> None:
    page.route(FILES, lambda route: route.abort())
    model.says(call("run_python", code="x = 1"), end)
    silent = "import agent_kernel_widgets.run as widgets\nwidgets._answer_loader = lambda *_: None"
    notebook = open_notebook([f"{LOAD}\n{silent}", "%%agent\nAct."])
    notebook.run_through(1)
    expect(page.get_by_role("alert")).to_contain_text("Try again, reload the page, or restart the server.")
    page.unroute(FILES)
    page.get_by_role("button", name="Try again", exact=True).click()
    notebook.wait_for_state("awaiting_approval")
    notebook.press("Approve")
    end.open()
    expect(notebook.record()).to_be_visible()


def test_code_is_edited_without_the_editor_where_its_file_can_not_be_loaded(
    open_notebook: OpenNotebook, model: WrittenModel, page: Page, end: Gate
) -> None:
    model.says(call("run_python", code="x = 1"), end)
    notebook = open_notebook([LOAD, "%%agent\nAct.", "x"])
    notebook.run_through(1)
    notebook.wait_for_state("awaiting_approval")
    expect(notebook.card().locator("[data-role=code] .ak-t-n")).to_have_text("1")
    page.route(FILES, lambda route: route.abort())
    notebook.press("Edit")
    field = notebook.card().get_by_role("textbox", name="Edit run_python")
    expect(field).to_be_focused()
    expect(field).to_have_value("x = 1")
    field.fill("x = 21 * 2")
    notebook.press("Approve")
    notebook.wait_for_state("success")
    end.open()
    expect(notebook.record()).to_be_visible()
    notebook.run(2)
    assert notebook.text(2) == "42"
