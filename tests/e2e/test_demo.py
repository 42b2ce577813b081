"""`agent-kernel demo` as a newcomer gets it: JupyterLab with settings of nobody, on the copy of the notebook, with the
recorded model."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.e2e.lab import NotebookPage
from tests.programs import Program, private_home, wait_until

RESTORED = "async () => { await window.jupyterapp.restored; }"


class Demo:
    """The demo's server, of a person who has never opened JupyterLab."""

    def __init__(self, root: Path, url: str) -> None:
        self.root, self.url = root, url

    def page_url(self, path: Path) -> str:
        """The address that the demo prints."""
        return self.url.replace("NAME", path.name)


@pytest.fixture
def demo(tmp_path: Path) -> Iterator[Demo]:
    program = "import sys; from agent_kernel.cli import main; sys.exit(main())"
    command = (sys.executable, "-c", program, "demo", "--directory", str(tmp_path / "demo"))
    options = ("--no-browser", "--ip=127.0.0.1", "--port=0", "--LabApp.expose_app_in_browser=True")
    server = Program([*command, *options], tmp_path / "demo.log", tmp_path, private_home(tmp_path))

    def find() -> str | None:
        for file in (tmp_path / "runtime").glob("jpserver-*.json"):
            try:
                info = json.loads(file.read_text())
            except ValueError:
                return None  # still being written
            return f"{info['url']}lab/tree/NAME?token={info['token']}"
        return None

    yield Demo(tmp_path / "demo", server.wait_until(find, "the demo's server"))
    server.stop()


def waiting(notebook: NotebookPage) -> Locator:
    return notebook.page.locator("[data-state=awaiting_approval][role=group]")


def approve_all(notebook: NotebookPage, records: int) -> None:
    def approved() -> bool:
        buttons = notebook.page.get_by_role("button", name="Approve", exact=True)
        if buttons.count():
            buttons.first.click()
        return notebook.record().count() >= records

    wait_until(approved, f"{records} records", 180)


def test_the_demo_asks_nothing_and_is_run_through(demo: Demo, fresh_page: Page) -> None:
    notebook = NotebookPage(demo, fresh_page, demo.root / "quickstart.ipynb")
    expect(fresh_page.get_by_text("Press Shift+Enter in the next cell")).to_be_visible()
    fresh_page.evaluate(RESTORED)
    assert "news" not in fresh_page.locator("body").inner_text().lower()

    notebook.start("notebook:run-all-cells")
    expect(waiting(notebook)).to_have_count(1)
    expect(waiting(notebook).first).to_contain_text("Recorded demo")
    expect(fresh_page.get_by_role("group", name="Agent run").first).to_contain_text("no model is called")
    approve_all(notebook, records=3)
    expect(notebook.record().nth(0)).to_contain_text("344 penguins of three species")
    expect(fresh_page.locator(".jp-RenderedImage img")).to_have_count(1)
    expect(notebook.record().nth(2)).to_contain_text("333 of the 344 penguins")
    assert (demo.root / "penguins_complete.csv").read_text().count("\n") == 334
