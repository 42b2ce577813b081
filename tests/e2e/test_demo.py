"""`agent-kernel demo` as a newcomer gets it: JupyterLab with settings of nobody, on the copy of the notebook."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.programs import Program

RESTORED = "async () => { await window.jupyterapp.restored; }"


@pytest.fixture
def demo_url(tmp_path: Path) -> Iterator[str]:
    """The address that the demo prints, of a person who has never opened JupyterLab."""
    places = {"CONFIG_DIR": "config", "DATA_DIR": "data", "RUNTIME_DIR": "runtime"}
    variables = {"HOME": str(tmp_path)} | {f"JUPYTER_{name}": str(tmp_path / place) for name, place in places.items()}
    program = "import sys; from agent_kernel.cli import main; sys.exit(main())"
    command = (sys.executable, "-c", program, "demo", "--directory", str(tmp_path / "demo"))
    options = ("--no-browser", "--ip=127.0.0.1", "--port=0", "--LabApp.expose_app_in_browser=True")
    server = Program([*command, *options], tmp_path / "demo.log", tmp_path, variables)

    def find() -> str | None:
        for file in (tmp_path / "runtime").glob("jpserver-*.json"):
            try:
                info = json.loads(file.read_text())
            except ValueError:
                return None  # still being written
            return f"{info['url']}lab/tree/quickstart.ipynb?token={info['token']}"
        return None

    yield server.wait_until(find, "the demo's server")
    server.stop()


def test_the_demo_opens_its_notebook_and_asks_nothing(demo_url: str, page: Page) -> None:
    page.goto(demo_url)
    expect(page.get_by_text("Press Shift+Enter in the next cell")).to_be_visible(timeout=60_000)
    page.evaluate(RESTORED)
    page.wait_for_load_state("networkidle")  # what is asked comes when the settings are there
    expect(page.locator("body")).to_contain_text("quickstart.ipynb")
    said = page.locator("body").inner_text()
    assert "news" not in said.lower(), said
