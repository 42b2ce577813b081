"""The example page of the AI SDK, in a browser: a page of another origin than the Jupyter server, started as a reader
starts it. Calls are counted in the notebook's kernel."""

import json
import re
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import pytest
from jupyter_client.blocking.client import BlockingKernelClient
from playwright.sync_api import Locator, Page, expect

from tests.ports import free_port
from tests.programs import Program, private_home

SAVE = "Save the penguins that have no missing value"
COUNTED = """
import pandas

kept_dropna, runs = pandas.DataFrame.dropna, 0

def dropna(self):
    global runs
    runs += 1
    return kept_dropna(self)

pandas.DataFrame.dropna = dropna
"""
FOLDER = Path(__file__).parents[2] / "examples" / "ai-sdk"
BUILT = FOLDER / "dist"


class Example:
    """What `npm start` starts, with a private home."""

    def __init__(self, home: Path) -> None:
        assert (BUILT / "index.html").exists(), "The page is not built: make examples/ai-sdk/dist/index.html"
        self.root = home / "notebooks"
        self.notebook = self.root / "penguins.ipynb"
        self._runtime = home / "runtime"
        options = ("--built", f"--port={free_port()}", f"--directory={self.root}")
        command = [sys.executable, str(FOLDER / "start.py"), *options]
        self._program = Program(command, home / "example.log", home, private_home(home))
        self.url = self._program.wait_until(lambda: self._printed("The page"), "the page's address")
        notebook = self._program.wait_until(lambda: self._printed("The notebook"), "the notebook's address")
        self._server, _, rest = notebook.partition("/lab/")
        self._token = rest.partition("token=")[2]

    def _printed(self, name: str) -> str | None:
        found = re.search(rf"^{name}: +(\S+)\n", self._program.log_text(), re.MULTILINE)
        return found[1] if found else None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._program.stop()

    def log_text(self) -> str:
        return self._program.log_text()

    def api(self, method: str, path: str) -> Any:
        """JSON from the Jupyter server."""
        headers = {"Authorization": f"token {self._token}"}
        request = urllib.request.Request(f"{self._server}/{path}", method=method, headers=headers)
        with urllib.request.urlopen(request, timeout=60) as response:
            text = response.read()
        return json.loads(text) if text else None

    def kernel(self) -> BlockingKernelClient:
        """A line to the notebook's kernel."""
        [session] = self.api("GET", "api/sessions")
        client = BlockingKernelClient(connection_file=str(self._runtime / f"kernel-{session['kernel']['id']}.json"))
        client.load_connection_file()
        client.start_channels()
        client.wait_for_ready(timeout=60)  # what is printed before the kernel is heard would be lost
        return client


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Example]:
    with Example(tmp_path_factory.mktemp("example")) as started:
        yield started


@pytest.fixture
def kernel(example: Example) -> Iterator[BlockingKernelClient]:
    """The kernel, in which each call of SAVE counts itself."""
    client = example.kernel()
    client.execute_interactive(COUNTED, timeout=60)
    yield client
    client.stop_channels()


def times_run(kernel: BlockingKernelClient) -> int:
    printed: list[str] = []
    kernel.execute_interactive("print(runs)", output_hook=lambda one: printed.append(one["content"].get("text", "")))
    return int("".join(printed))


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


def test_calls_are_stopped_denied_by_keys_and_approved_once_also_after_a_reload(
    page: Page, example: Example, kernel: BlockingKernelClient
) -> None:
    ask(page, example, SAVE)
    expect(cards(page, "waiting")).to_contain_text("Writes files: penguins_complete.csv")
    assert "token" not in page.url
    page.get_by_role("button", name="Stop").click()
    expect(cards(page, "ended")).to_contain_text("Cancelled before it started.")
    page.get_by_role("button", name="Ask again").click()
    assert times_run(kernel) == 0
    approve(page)
    expect_answered(page)
    expect(cards(page, "done")).to_contain_text("333 of 344 penguins written")
    expect(page.get_by_role("article", name="Agent").last).to_contain_text("I wrote 333 of the 344 penguins")
    assert times_run(kernel) == 1
    (example.root / "penguins_complete.csv").unlink()

    page.get_by_role("button", name="Ask again").click()
    page.get_by_role("button", name="Deny").press("Enter")
    expect(page.get_by_role("textbox", name="Reason")).to_be_focused()
    page.keyboard.type("No files, please.")
    page.keyboard.press("Enter")
    expect(cards(page, "denied")).to_contain_text("By you: “No files, please.” Nothing ran.")
    expect(cards(page, "waiting")).to_contain_text("value_counts()")  # the model's other way
    page.reload()
    expect(cards(page, "denied")).to_contain_text("By you: “No files, please.” Nothing ran.")
    approve(page)
    expect_answered(page)
    assert times_run(kernel) == 2
    assert not (example.root / "penguins_complete.csv").exists()
