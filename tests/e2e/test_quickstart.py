"""`make demo`, as a newcomer sees it: the shipped notebook with the recorded model, in light and dark."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.e2e.conftest import RESULTS
from tests.e2e.lab import LabServer, NotebookPage
from tests.programs import wait_until

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
SUMMARY, PLOT, SAVE = 5, 7, 9


@pytest.fixture
def quickstart(lab: LabServer, page: Page, request: pytest.FixtureRequest) -> Iterator[NotebookPage]:
    directory = lab.root / request.node.name
    shutil.copytree(NOTEBOOKS, directory)
    yield NotebookPage(lab, page, directory / "quickstart.ipynb")
    lab.close_kernels()


def waiting(notebook: NotebookPage) -> Locator:
    return notebook.page.locator("[data-state=awaiting_approval][role=group]")


def approve_all(notebook: NotebookPage, records: int) -> None:
    def approved() -> bool:
        buttons = notebook.page.get_by_role("button", name="Approve", exact=True)
        if buttons.count():
            buttons.first.click()
        return notebook.record().count() >= records

    wait_until(approved, f"{records} records", 180)


def screenshot(notebook: NotebookPage, name: str, cell: int) -> None:
    RESULTS.mkdir(exist_ok=True)
    expect(notebook.page.locator("#jupyterlab-splash")).to_have_count(0)  # a change of theme shows it for a moment
    locator = notebook.page.locator(".jp-Notebook .jp-Cell").nth(cell)
    locator.scroll_into_view_if_needed()
    locator.screenshot(path=RESULTS / f"{name}.png")


def test_run_all_cells_of_the_quickstart_and_approve_everything(quickstart: NotebookPage) -> None:
    quickstart.start("notebook:run-all-cells")
    expect(waiting(quickstart)).to_have_count(1)
    expect(waiting(quickstart).first).to_contain_text("Recorded demo")
    expect(quickstart.page.get_by_role("group", name="Agent run").first).to_contain_text("no model is called")
    approve_all(quickstart, records=3)
    expect(quickstart.record().nth(0)).to_contain_text("344 penguins of three species")
    expect(quickstart.page.locator(".jp-RenderedImage img")).to_have_count(1)
    expect(quickstart.record().nth(2)).to_contain_text("333 of the 344 penguins")
    assert (quickstart.path.parent / "penguins_complete.csv").read_text().count("\n") == 334


def test_the_quickstart_looks_right_in_light_and_dark(quickstart: NotebookPage) -> None:
    for cell in (1, 3, PLOT):
        quickstart.run(cell)
    expect(waiting(quickstart)).to_have_count(2)
    for theme in ("Light", "Dark"):
        quickstart.command("apputils:change-theme", theme=f"JupyterLab {theme}")
        expect(quickstart.page.locator("body")).to_have_attribute("data-jp-theme-light", str(theme == "Light").lower())
        screenshot(quickstart, f"two-cards-waiting-{theme.lower()}", PLOT)
    approve_all(quickstart, records=1)
    for theme in ("Dark", "Light"):
        quickstart.command("apputils:change-theme", theme=f"JupyterLab {theme}")
        expect(quickstart.page.locator("body")).to_have_attribute("data-jp-theme-light", str(theme == "Light").lower())
        screenshot(quickstart, f"record-{theme.lower()}", PLOT)
    quickstart.run(SAVE)
    expect(waiting(quickstart)).to_have_count(1)
    expect(quickstart.page.get_by_text("penguins_complete.csv").first).to_be_visible()
    screenshot(quickstart, "a-question-you-may-refuse-light", SAVE)
