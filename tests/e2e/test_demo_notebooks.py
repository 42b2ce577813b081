"""Each demo notebook by Shift+Enter from top to bottom, where a person decides what waits as its texts say."""

import shutil
from functools import partial

import pytest
from playwright.sync_api import Page, expect

from tests.demos.run import NAMES, NOTEBOOKS, stories
from tests.e2e.lab import LabServer, NotebookPage, close_notebooks
from tests.programs import wait_until

DENIED = "raw = raw.dropna()"
"""The code that cleaning.ipynb has its reader deny."""
ANNOUNCED = {"fixing": ["KeyError"]}
"""Errors of cells that the texts announce."""
MISFITS = {"replaying": 2}
"""How many records say, as announced, that the recording no longer fits."""
PROMPTS = "() => window.jupyterapp.shell.currentWidget.content.widgets.map(cell => cell.promptNode?.textContent ?? '')"

IS_ACTIVE = "index => window.jupyterapp.shell.currentWidget.content.activeCellIndex === index"
BEGIN = """() => {
  const { content } = window.jupyterapp.shell.currentWidget;
  content.deselectAll();
  content.activeCellIndex = 0;
  content.mode = 'command';
  content.activate();
}"""


@pytest.mark.soak
@pytest.mark.parametrize("name", NAMES)
def test_a_demo_notebook_runs_through_and_says_what_its_texts_announce(name: str, lab: LabServer, page: Page) -> None:
    for kind in ("data", "recordings"):
        shutil.copytree(NOTEBOOKS / kind, lab.root / kind, dirs_exist_ok=True)
    path = lab.root / f"{name}.ipynb"
    shutil.copy(NOTEBOOKS / path.name, path)
    notebook = NotebookPage(lab, page, path)
    notebook.command("notebook:clear-all-cell-outputs")
    by_shift_enter(notebook)
    saved = notebook.save()
    outputs = [output for cell in saved.cells for output in cell.get("outputs", [])]
    errors = [output.ename for output in outputs if output.output_type == "error"]
    assert errors == ANNOUNCED.get(name, [])
    said = " ".join(" ".join(output.get("data", {}).get("text/plain", "") for output in outputs).split())
    assert said.count("The recording no longer fits") == MISFITS.get(name, 0)
    for *_, last in stories(name):
        if not last.answer.calls:  # a budget stopped it otherwise
            assert " ".join(last.answer.content.split()) in said
    close_notebooks(page)
    lab.close_kernels()


def by_shift_enter(notebook: NotebookPage) -> None:
    """Nothing but this key, and the buttons of cards: the notebook is on the next cell by itself."""
    page = notebook.page
    page.evaluate(BEGIN)
    *cells, last = range(len(page.evaluate(PROMPTS)))
    for position in cells:
        page.keyboard.press("Shift+Enter")
        wait_until(partial(decided_to_the_end, notebook, position), f"the end of cell {position}", 180)
        page.wait_for_function(IS_ACTIVE, arg=position + 1)
    assert decided_to_the_end(notebook), f"only {last}, which is text, has not run"


def decided_to_the_end(notebook: NotebookPage, last: int | None = None) -> bool:
    """Decide what waits, and say whether all cells have run up to this one."""
    page = notebook.page
    waiting = page.locator(".jp-Notebook [data-state=awaiting_approval][role=group]")
    paused = page.get_by_role("group", name="Budget reached").or_(
        page.get_by_role("group", name="The agent repeats itself")
    )
    if paused.count():
        page.get_by_role("button", name="Stop", exact=True).click()
    elif waiting.count():
        # By its id: another card may be the first by the time of the click.
        call = waiting.first.get_attribute("data-tool-call-id")
        card = page.locator(f".jp-Notebook [data-state=awaiting_approval][data-tool-call-id='{call}'][role=group]")
        if DENIED in (said := card.inner_text()) and "everything" not in said:
            card.get_by_role("button", name="Deny", exact=True).click()
            card.get_by_role("textbox", name="Reason").fill("Keep raw as it is.")
            card.get_by_role("textbox", name="Reason").press("Enter")
        else:
            card.get_by_role("button", name="Approve", exact=True).click()
        expect(card).to_have_count(0)
    prompts: list[str] = page.evaluate(PROMPTS)[: None if last is None else last + 1]
    return not any("*" in prompt or "[ ]" in prompt for prompt in prompts)
