"""The example page of the AI SDK, in a browser: a page of another origin than the Jupyter server, started as a reader
starts it. Calls are counted in the notebook's kernel."""

import functools
import http.server
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Locator, Page, Route, expect

from tests.e2e.example import BUILT, Example, ExampleKernel
from tests.e2e.lab import NotebookPage

SAVE = "Save the penguins that have no missing value"
COMPARE = "What is in penguins?"
PLOT = "Plot body mass against flipper length"
# What the page says of its state from now on, however shortly.
SAID = """() => {
  window.said = [];
  const status = document.querySelector("[role=status]");
  const options = { characterData: true, childList: true, subtree: true };
  new MutationObserver(() => said.push(status.textContent)).observe(status, options);
}"""
COUNTED = """
import time
from pathlib import Path
import pandas

kept_dropna = globals().get("kept_dropna", pandas.DataFrame.dropna)
runs, gate = 0, None

def dropna(self):
    global runs
    runs += 1
    print("counted", flush=True)
    while gate is not None and not Path(gate).exists():
        time.sleep(0.02)
    return kept_dropna(self)

pandas.DataFrame.dropna = dropna
"""


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Example]:
    with Example(tmp_path_factory.mktemp("example")) as started:
        yield started


@pytest.fixture
def kernel(example: Example) -> Iterator[ExampleKernel]:
    """The kernel, in which each call of SAVE counts itself."""
    with example.kernel() as kernel:
        kernel.run(COUNTED)
        yield kernel


def times_run(kernel: ExampleKernel) -> int:
    return int(kernel.run("print(runs)"))


def runs(example: Example) -> list[str]:
    """The ids of the server's conversations and of their runs."""
    views = example.api("GET", "agent-kernel/api/conversations")
    return [view["conversation_id"] for view in views] + [run["run_id"] for view in views for run in view["runs"]]


def cards(page: Page, state: str) -> Locator:
    return page.locator(f".card[data-state={state}]")


def ask(page: Page, example: Example, prompt: str) -> None:
    page.goto(example.url)
    page.get_by_role("button", name=prompt).click()


def approve(page: Page) -> None:
    """Approve the first call that waits."""
    page.get_by_role("group", name="run_python: Waiting for you").first.get_by_role("button", name="Approve").click()


def expect_answered(page: Page) -> None:
    expect(page.get_by_role("button", name="Ask again")).to_be_visible()


def test_a_call_that_is_approved_in_the_page_runs_once_in_the_notebooks_kernel(
    page: Page, example: Example, kernel: ExampleKernel
) -> None:
    ask(page, example, SAVE)
    expect(cards(page, "waiting")).to_contain_text("Writes files: penguins_complete.csv")
    assert "token" not in page.url
    assert times_run(kernel) == 0
    approve(page)
    expect_answered(page)
    expect(cards(page, "done")).to_contain_text("333 of 344 penguins written")
    expect(page.get_by_role("article", name="Agent")).to_contain_text("I wrote 333 of the 344 penguins")
    assert times_run(kernel) == 1
    (example.root / "penguins_complete.csv").unlink()


def test_a_plot_and_what_was_printed_are_shown_when_both_calls_are_answered(page: Page, example: Example) -> None:
    ask(page, example, PLOT)
    expect(cards(page, "waiting")).to_have_count(2)
    approve(page)
    expect(cards(page, "approved")).to_contain_text("Sent as soon as you have answered the other calls.")
    expect(cards(page, "waiting").get_by_role("button", name="Approve")).to_be_focused()
    page.keyboard.press("Enter")
    expect_answered(page)
    expect(cards(page, "done")).to_have_count(2)
    expect(cards(page, "done").last).to_contain_text("All: r = 0.87")
    expect(page.get_by_role("img", name="A picture that a call has drawn")).to_be_visible()
    expect(page.get_by_role("textbox", name="Message")).to_be_focused()


def test_a_denial_with_a_reason_needs_only_keys_and_the_model_goes_on(
    page: Page, example: Example, kernel: ExampleKernel
) -> None:
    ask(page, example, SAVE)
    page.get_by_role("button", name="Deny").press("Enter")
    expect(page.get_by_role("textbox", name="Reason")).to_be_focused()
    page.keyboard.type("No files, please.")
    page.keyboard.press("Enter")
    expect(cards(page, "denied")).to_contain_text("By you: “No files, please.” Nothing ran.")
    expect(cards(page, "waiting")).to_contain_text("value_counts()")  # the model's other way
    assert times_run(kernel) == 0
    page.reload()
    expect(cards(page, "denied")).to_contain_text("By you: “No files, please.” Nothing ran.")
    approve(page)
    expect_answered(page)
    assert times_run(kernel) == 1
    assert not (example.root / "penguins_complete.csv").exists()


def test_a_page_that_is_reloaded_while_a_call_runs_goes_on_with_it(
    page: Page, example: Example, kernel: ExampleKernel, tmp_path: Path
) -> None:
    kernel.run(f"gate = {str(tmp_path / 'gate')!r}")
    ask(page, example, SAVE)
    expect(cards(page, "waiting")).to_have_count(1)
    page.reload()
    approve(page)
    expect(cards(page, "running")).to_contain_text("counted")  # what it has printed so far
    page.reload()
    expect(cards(page, "running")).to_contain_text("counted")
    expect(page.get_by_role("button", name="Approve")).to_have_count(0)
    (tmp_path / "gate").touch()
    expect_answered(page)
    expect(page.get_by_text("This writes a file next to the notebook")).to_have_count(1)
    expect(cards(page, "done")).to_have_count(1)
    assert times_run(kernel) == 1


def test_a_decision_right_after_a_reload_is_not_taken_for_an_answer_by_what_finds_nothing_to_resume(
    page: Page, example: Example, kernel: ExampleKernel, tmp_path: Path
) -> None:
    kernel.run(f"gate = {str(tmp_path / 'gate')!r}")
    ask(page, example, SAVE)
    expect(cards(page, "waiting")).to_have_count(1)
    late: list[Route] = []
    page.route("**/stream", lambda route: late.append(route))  # noqa: PLW0108 -- Playwright marks its handlers
    page.reload()
    approve(page)
    expect(cards(page, "running")).to_contain_text("counted")
    page.evaluate(SAID)
    for route in late:
        route.fulfill(status=204)
    page.wait_for_timeout(500)  # what follows a response that says nothing: there is nothing to wait for
    assert page.evaluate("said") == []
    (tmp_path / "gate").touch()
    expect_answered(page)
    assert times_run(kernel) == 1


def test_stop_ends_the_run_and_the_question_can_be_asked_again(
    page: Page, example: Example, kernel: ExampleKernel
) -> None:
    ask(page, example, SAVE)
    expect(cards(page, "waiting")).to_have_count(1)
    page.get_by_role("button", name="Stop").click()
    expect(cards(page, "ended")).to_contain_text("Cancelled before it started.")
    page.get_by_role("button", name="Ask again").click()
    approve(page)
    expect_answered(page)
    assert times_run(kernel) == 1


def test_a_run_at_its_budget_says_so_and_goes_on_when_more_is_added(page: Page, example: Example) -> None:
    limits = example.root / ".agent-kernel.toml"
    limits.write_text("[budget]\nsteps = 1\n")
    ask(page, example, COMPARE)
    approve(page)
    paused = page.get_by_role("group", name="The run is paused")
    expect(paused).to_contain_text("Budget reached.")
    paused.get_by_role("button", name="Add 20 steps").click()
    approve(page)
    expect_answered(page)
    expect(page.get_by_text("344 penguins of three species")).to_be_visible()
    limits.unlink()


def test_what_the_model_can_not_answer_is_said_with_what_to_do(page: Page, example: Example) -> None:
    page.goto(example.url)
    page.get_by_role("textbox", name="Message").fill("How are you?")
    page.keyboard.press("Enter")
    alert = page.get_by_role("alert")
    expect(alert).to_contain_text("is a recording and can't answer 'How are you?'")
    alert.get_by_role("button", name="Try again").click()
    expect(alert).to_contain_text("is a recording and can't answer 'How are you?'")


def test_what_is_heard_of_an_answer_after_it_failed_takes_its_error_not_away(page: Page, example: Example) -> None:
    held: list[Route] = []
    page.route("**/conversations/*/events", lambda route: held.append(route))  # noqa: PLW0108 -- Playwright marks its handlers
    page.goto(example.url)
    page.get_by_role("textbox", name="Message").fill("How are you?")
    page.keyboard.press("Enter")
    alert = page.get_by_role("alert")
    expect(alert).to_contain_text("is a recording and can't answer 'How are you?'")
    asked_again: list[str] = []
    page.on("request", lambda request: asked_again.append(urlsplit(request.url).path))
    while not held:  # the page may show the failure before it asks for what is heard of the answer
        page.wait_for_timeout(20)
    with page.expect_response(lambda response: "/ai-sdk/chat/" in response.url):
        held[0].continue_()
    page.wait_for_timeout(500)  # what follows a response of the messages: there is nothing to wait for
    expect(alert).to_be_visible()
    assert not [path for path in asked_again if path.endswith("/stream")]


def test_an_approval_that_did_not_arrive_is_sent_again_and_its_call_runs_once(
    page: Page, example: Example, kernel: ExampleKernel
) -> None:
    page.route("**/conversations/*/events", lambda route: route.abort())  # what is heard makes a page send by itself
    ask(page, example, SAVE)
    expect(cards(page, "waiting")).to_have_count(1)
    page.route("**/ai-sdk/chat", lambda route: route.abort())
    approve(page)
    alert = page.get_by_role("alert")
    expect(alert).to_contain_text("The Jupyter server does not answer this page.")
    page.unroute("**/ai-sdk/chat")
    alert.get_by_role("button", name="Try again").click()
    expect_answered(page)
    expect(alert).to_have_count(0)
    assert times_run(kernel) == 1


@pytest.fixture
def elsewhere() -> Iterator[str]:
    """The same page, from an origin that the Jupyter server has not heard of."""
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=BUILT)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


def test_a_page_of_an_origin_that_is_not_allowed_gets_nothing_even_with_the_token(
    page: Page, example: Example, elsewhere: str
) -> None:
    before = runs(example)
    page.goto(f"{elsewhere}?chat=elsewhere#{urlsplit(example.url).fragment}")
    expect(page.get_by_role("alert")).to_contain_text(f'c.ServerApp.allow_origin = "{elsewhere.rstrip("/")}"')
    assert runs(example) == before


def test_a_page_with_an_old_token_says_where_the_new_one_is(page: Page, example: Example) -> None:
    address, _, fragment = example.url.partition("#")
    page.goto(f"{address}?chat=old#{fragment.replace('token=', 'token=old')}")
    expect(page.get_by_role("alert")).to_contain_text("Open the address that npm start printed last.")


def test_a_conversation_of_the_notebook_is_decided_in_the_page_and_in_jupyterlab(page: Page, example: Example) -> None:
    lab_page = page.context.new_page()
    notebook = NotebookPage(example, lab_page, example.notebook)
    notebook.run_through(1)
    known = {one["conversation_id"] for one in example.api("GET", "agent-kernel/api/conversations")}
    notebook.run(2)
    notebook.wait_for_state("awaiting_approval", card=1)
    began = {one["conversation_id"] for one in example.api("GET", "agent-kernel/api/conversations")} - known
    address, _, fragment = example.url.partition("#")
    page.goto(f"{address}?chat={began.pop()}#{fragment}")
    expect(cards(page, "waiting")).to_contain_text("missing = penguins.isna().sum()")
    approve(page)
    notebook.wait_for_state("success", card=1)
    notebook.wait_for_state("awaiting_approval", card=2)
    expect(cards(page, "waiting")).to_contain_text("measurements = ")
    notebook.press("Approve", card=2)
    expect_answered(page)
    expect(cards(page, "done")).to_have_count(3)
    expect(page.get_by_text("344 penguins of three species")).to_be_visible()
    expect(notebook.record()).to_contain_text("344 penguins of three species")


def test_a_call_whose_kernel_died_is_told_as_unknown_and_asks_what_to_do(
    page: Page, example: Example, kernel: ExampleKernel
) -> None:
    kernel.run("gate = '/nowhere'")
    process = int(kernel.run("import os; print(os.getpid())"))
    ask(page, example, SAVE)
    approve(page)
    expect(cards(page, "running")).to_contain_text("counted")
    os.kill(process, signal.SIGKILL)
    expect(cards(page, "unknown")).to_contain_text("may have finished, run in part, or not run at all")
    page.get_by_role("button", name="Continue").click()
    expect_answered(page)
    expect(page.get_by_role("article", name="Agent")).to_contain_text("That call did not end well")
