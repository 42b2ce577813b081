"""A notebook that is saved while its run waits: the file says so, a page that loads it has cards, a copy has none."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest
from playwright.sync_api import Browser, Page, expect

from agent_kernel.testing import call, say
from tests.e2e.conftest import OpenNotebook
from tests.e2e.lab import LabServer, NotebookPage
from tests.e2e.model import WrittenModel
from tests.e2e.records import WIDGET, assert_record_is_saved, bundles

LOAD = "%load_ext agent_kernel"
PLOT = "%%agent\nPlot body mass of the penguins."
WAITING = "Waiting for you: run_python"
DIALOGS = ".jp-Dialog"


def waiting(notebook: NotebookPage, model: WrittenModel) -> NotebookPage:
    """The notebook, with a run that waits for a decision."""
    model.says(call("run_python", code="print('drawn')"), say("A plot of *mass*."))
    notebook.run_through(1)
    notebook.wait_for_state("awaiting_approval")
    return notebook


def assert_it_waits(saved: nbformat.NotebookNode, cell: int = 1) -> None:
    (shown,) = bundles(saved, cell)
    assert WIDGET not in shown
    assert WAITING in shown["text/plain"]
    assert "print('drawn')" in shown["text/html"].replace("&#x27;", "'")


def test_the_cards_are_there_after_a_reload_and_the_record_at_the_end(
    open_notebook: OpenNotebook, model: WrittenModel
) -> None:
    notebook = waiting(open_notebook([LOAD, PLOT]), model)
    assert_it_waits(notebook.save())
    before = notebook.path.read_bytes()
    assert_it_waits(notebook.save())
    assert notebook.path.read_bytes() == before
    expect(notebook.page.locator(DIALOGS)).to_have_count(0)
    notebook.wait_for_state("awaiting_approval")

    notebook.reload()
    notebook.wait_for_state("awaiting_approval")
    expect(notebook.page.get_by_text(WAITING)).to_have_count(0)
    assert_it_waits(notebook.save())
    assert notebook.path.read_bytes() == before
    expect(notebook.page.locator(DIALOGS)).to_have_count(0)
    notebook.press("Approve")
    expect(notebook.page.get_by_text("A plot of mass.").first).to_be_visible()
    notebook.wait_for_end()
    assert_record_is_saved(notebook.save(), 1, "A plot of")
    notebook.reload()
    expect(notebook.record()).to_contain_text("A plot of mass.")
    expect(notebook.page.get_by_text(WAITING)).to_have_count(0)


def test_a_checkpoint_from_before_the_end_comes_back_as_the_record(
    open_notebook: OpenNotebook, model: WrittenModel
) -> None:
    notebook = waiting(open_notebook([LOAD, PLOT]), model)
    notebook.save()
    revert(notebook)
    notebook.wait_for_state("awaiting_approval")
    notebook.press("Approve")
    expect(notebook.page.get_by_text("A plot of mass.").first).to_be_visible()
    notebook.wait_for_end()
    notebook.page.evaluate("async () => { await window.jupyterapp.shell.currentWidget.context.save(); }")
    revert(notebook)
    expect(notebook.record()).to_contain_text("A plot of mass.")
    expect(notebook.page.get_by_text(WAITING)).to_have_count(0)


def revert(notebook: NotebookPage) -> None:
    """As File, Revert Notebook to Checkpoint does."""
    notebook.page.evaluate(
        "async () => { const { context } = window.jupyterapp.shell.currentWidget; await context.restoreCheckpoint();"
        " await context.revert(); }"
    )


def test_two_tabs_save_and_load_without_a_question(
    open_notebook: OpenNotebook, model: WrittenModel, lab: LabServer, browser: Browser
) -> None:
    notebook = waiting(open_notebook([LOAD, PLOT]), model)
    notebook.save()
    context = browser.new_context(viewport={"width": 1200, "height": 900})
    other = NotebookPage(lab, context.new_page(), notebook.path)
    other.wait_for_state("awaiting_approval")
    notebook.save()
    assert_it_waits(notebook.save())
    other.press("Approve")
    expect(other.page.get_by_text("A plot of mass.").first).to_be_visible()
    expect(notebook.page.get_by_text("A plot of mass.").first).to_be_visible()
    for tab in (notebook, other):
        expect(tab.page.locator(DIALOGS)).to_have_count(0)
        tab.wait_for_end()
    assert_record_is_saved(notebook.save(), 1, "A plot of")
    context.close()


def test_a_copy_says_that_it_waits_and_so_does_nbconvert(
    open_notebook: OpenNotebook, model: WrittenModel, lab: LabServer, browser: Browser, tmp_path: Path
) -> None:
    notebook = waiting(open_notebook([LOAD, PLOT]), model)
    notebook.save()
    copied = lab.api("POST", "api/contents", {"copy_from": notebook.path.name})
    copy = notebook.path.with_name(copied["name"])
    assert_it_waits(nbformat.read(copy, as_version=4))
    context = browser.new_context(viewport={"width": 1200, "height": 900})
    other = NotebookPage(lab, context.new_page(), copy)
    expect(other.page.get_by_text(WAITING)).to_be_visible()
    expect(other.page.get_by_text("print('drawn')")).to_be_visible()
    expect(other.cards()).to_have_count(0)
    assert_it_waits(other.save())
    context.close()
    for form in ("html", "markdown"):
        command = [sys.executable, "-m", "nbconvert", f"--to={form}", f"--output-dir={tmp_path}", str(notebook.path)]
        subprocess.run(command, check=True, capture_output=True, timeout=120)
    for file in tmp_path.iterdir():
        text = file.read_text(encoding="utf-8")
        assert WAITING in text
        assert "print" in text
        assert "widget-view" not in text
        assert "not found" not in text
    notebook.press("Deny")
    notebook.page.keyboard.press("Escape")
    lab.close_kernels()
    model.begin()


class TestInNotebook7:
    """The same in the other page of Jupyter's."""

    @pytest.fixture
    def lab(self, shared_model: WrittenModel, tmp_path: Path) -> Any:
        with LabServer(tmp_path, shared_model.server.environment(), app="notebook") as server:
            yield server

    def test_the_cards_are_there_after_a_reload(self, lab: LabServer, page: Page, model: WrittenModel) -> None:
        notebook = waiting(NotebookPage(lab, page, lab.write_notebook("seven.ipynb", [LOAD, PLOT])), model)
        assert_it_waits(notebook.save())
        notebook.reload()
        notebook.wait_for_state("awaiting_approval")
        notebook.press("Approve")
        expect(notebook.page.get_by_text("A plot of mass.").first).to_be_visible()
        notebook.wait_for_end()
        assert_record_is_saved(notebook.save(), 1, "A plot of")
