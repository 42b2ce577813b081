"""The example page of the AI SDK, in a browser: a page of another origin than the Jupyter server, started as a reader
starts it. Calls are counted in the notebook's kernel."""

import json
import re
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import pytest
from jupyter_client.blocking.client import BlockingKernelClient
from playwright.sync_api import Locator, Page, expect

from tests.e2e.lab import NotebookPage
from tests.ports import free_port
from tests.programs import Program, private_home

SAVE = "Save the penguins that have no missing value"
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


FOLDER = Path(__file__).parents[2] / "examples" / "ai-sdk"
BUILT = FOLDER / "dist"
_LAB = ("--LabApp.expose_app_in_browser=True", "--LabApp.news_url=None", "--LabApp.extension_manager=readonly")


class Example:
    """What `npm start` starts, with a private home."""

    def __init__(self, home: Path) -> None:
        assert (BUILT / "index.html").exists(), "The page is not built: make examples/ai-sdk/dist/index.html"
        self.root = home / "notebooks"
        self.notebook = self.root / "penguins.ipynb"
        self._runtime = home / "runtime"
        options = ("--built", f"--port={free_port()}", f"--directory={self.root}", "--", *_LAB)
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

    def page_url(self, path: Path) -> str:
        """Where a person finds a notebook."""
        return f"{self._server}/lab/tree/{path.relative_to(self.root)}?token={self._token}"

    def api(self, method: str, path: str) -> Any:
        """JSON from the Jupyter server."""
        headers = {"Authorization": f"token {self._token}"}
        request = urllib.request.Request(f"{self._server}/{path}", method=method, headers=headers)
        with urllib.request.urlopen(request, timeout=60) as response:
            text = response.read()
        return json.loads(text) if text else None

    @contextmanager
    def kernel(self) -> Iterator["ExampleKernel"]:
        """The notebook's kernel."""
        [session] = self.api("GET", "api/sessions")
        client = BlockingKernelClient(connection_file=str(self._runtime / f"kernel-{session['kernel']['id']}.json"))
        client.load_connection_file()
        client.start_channels()
        client.wait_for_ready(timeout=60)  # what is printed before the kernel is heard would be lost
        yield ExampleKernel(client)
        client.stop_channels()


class ExampleKernel:
    def __init__(self, client: BlockingKernelClient) -> None:
        self._client = client

    def run(self, code: str) -> str:
        """Run code as another page would. Returns what it printed."""
        printed: list[str] = []

        def take(message: dict[str, Any]) -> None:
            printed.append(message["content"].get("text", ""))

        reply = self._client.execute_interactive(code, output_hook=take, timeout=60)
        assert reply["content"]["status"] == "ok", reply["content"]
        return "".join(printed).strip()


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
    page: Page, example: Example, kernel: ExampleKernel
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
