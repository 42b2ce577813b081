"""A kernel's first prompt: its widget is a bare comm for half a second, and nobody can tell."""

import pytest
from playwright.sync_api import Page, expect

from agent_kernel.testing import call, say
from tests.e2e.conftest import OpenNotebook
from tests.e2e.model import WrittenModel

BUSY = "import ipywidgets, pathlib, time\nwhile not pathlib.Path('go').exists(): time.sleep(0.05)"


def test_a_page_that_is_reloaded_as_the_first_card_appears_shows_it_and_takes_the_decision(
    open_notebook: OpenNotebook, model: WrittenModel
) -> None:
    model.says(call("run_python", code="6 * 7"), say("It is 42."))
    notebook = open_notebook(["%load_ext agent_kernel", "%%agent\nCount."])
    notebook.run_through(1)
    expect(notebook.cards()).to_have_count(1)
    notebook.save()
    notebook.reload()
    expect(notebook.cards()).to_have_count(1)
    notebook.press("Approve")
    notebook.wait_for_state("success")


@pytest.mark.parametrize("seconds", [0.0, 1.0])
def test_a_page_that_is_reloaded_while_the_next_cell_goes_on_shows_the_first_card_after_it(
    open_notebook: OpenNotebook, model: WrittenModel, page: Page, seconds: float
) -> None:
    """That cell may have imported the widgets by itself, with which JupyterLab then finds all of the kernel's."""
    model.says(call("run_python", code="6 * 7"), say("It is 42."))
    notebook = open_notebook(["%load_ext agent_kernel", "%%agent\nCount.", BUSY])
    notebook.run_through(1)
    notebook.run(2, wait=False)
    expect(notebook.cards()).to_have_count(1)
    notebook.save()
    page.wait_for_timeout(seconds * 1000)  # before and after the kernel has the widget: no page can tell when
    page.reload()
    notebook.path.with_name("go").touch()  # JupyterLab restores widgets once the kernel has said what it is
    expect(notebook.cards()).to_have_count(1)
    notebook.press("Approve")
    notebook.wait_for_state("success")
