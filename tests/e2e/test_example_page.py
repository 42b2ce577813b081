"""The example page of the AI SDK, in a browser: a page of another origin than the Jupyter server, started as a reader
starts it."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Self

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.ports import free_port
from tests.programs import Program, private_home

SAVE = "Save the penguins that have no missing value"
FOLDER = Path(__file__).parents[2] / "examples" / "ai-sdk"
BUILT = FOLDER / "dist"


class Example:
    """What `npm start` starts, with a private home."""

    def __init__(self, home: Path) -> None:
        assert (BUILT / "index.html").exists(), "The page is not built: make examples/ai-sdk/dist/index.html"
        self.root = home / "notebooks"
        options = ("--built", f"--port={free_port()}", f"--directory={self.root}")
        command = [sys.executable, str(FOLDER / "start.py"), *options]
        self._program = Program(command, home / "example.log", home, private_home(home))
        self.url = self._program.wait_until(lambda: self._printed("The page"), "the page's address")

    def _printed(self, name: str) -> str | None:
        found = re.search(rf"^{name}: +(\S+)\n", self._program.log_text(), re.MULTILINE)
        return found[1] if found else None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._program.stop()

    def log_text(self) -> str:
        return self._program.log_text()


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Example]:
    with Example(tmp_path_factory.mktemp("example")) as started:
        yield started


def cards(page: Page, state: str) -> Locator:
    return page.locator(f".card[data-state={state}]")


def approve(page: Page) -> None:
    """Approve the first call that waits."""
    page.get_by_role("group", name="run_python: Waiting for you").first.get_by_role("button", name="Approve").click()


def expect_answered(page: Page) -> None:
    expect(page.get_by_role("button", name="Ask again")).to_be_visible()


def test_calls_are_stopped_denied_by_keys_and_approved_once_also_after_a_reload(page: Page, example: Example) -> None:
    saved = example.root / "penguins_complete.csv"
    page.goto(example.url)
    page.get_by_role("button", name=SAVE).click()
    expect(cards(page, "waiting")).to_contain_text("Writes files: penguins_complete.csv")
    assert "token" not in page.url
    page.get_by_role("button", name="Stop").click()
    expect(cards(page, "ended")).to_contain_text("Cancelled before it started.")
    page.get_by_role("button", name="Ask again").click()
    assert not saved.exists()
    approve(page)
    expect_answered(page)
    expect(cards(page, "done")).to_contain_text("333 of 344 penguins written")
    expect(page.get_by_role("article", name="Agent").last).to_contain_text("I wrote 333 of the 344 penguins")
    saved.unlink()

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
    assert not saved.exists()
