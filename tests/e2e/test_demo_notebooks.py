"""Each demo notebook by Run All, twice in one kernel, where a person decides what waits as its texts say."""

import shutil

import pytest
from playwright.sync_api import Page

from tests.demos.run import NOTEBOOKS
from tests.demos.script import Turn
from tests.demos.stories import NAMES, script_of
from tests.e2e.lab import LabServer, NotebookPage, close_notebooks
from tests.programs import wait_until

DENIED = "raw = raw.dropna()"
"""The code that cleaning.ipynb has its reader deny."""
ANNOUNCED = {"fixing": ["KeyError"]}
"""Errors of cells that the texts announce."""
MISFITS = {"replaying": 2}
"""How many records say, as announced, that the recording no longer fits."""
UNANSWERED = {"when-things-break": {1, 3}}
"""The stories, by number, whose answer never comes, because a budget stops them."""
PROMPTS = "() => window.jupyterapp.shell.currentWidget.content.widgets.map(cell => cell.promptNode?.textContent ?? '')"


@pytest.mark.soak
@pytest.mark.parametrize("name", NAMES)
def test_a_demo_notebook_runs_through_twice_and_says_what_its_texts_announce(
    name: str, lab: LabServer, page: Page
) -> None:
    for kind in ("data", "recordings"):
        shutil.copytree(NOTEBOOKS / kind, lab.root / kind, dirs_exist_ok=True)
    path = shutil.copy(NOTEBOOKS / f"{name}.ipynb", lab.root / f"{name}.ipynb")
    notebook = NotebookPage(lab, page, path)
    for _ in range(2):
        notebook.command("notebook:clear-all-cell-outputs")
        notebook.start("notebook:run-all-cells")
        wait_until(lambda: decided_to_the_end(notebook), "the end of the notebook", 180)
        saved = notebook.save()
        outputs = [output for cell in saved.cells for output in cell.get("outputs", [])]
        errors = [output.ename for output in outputs if output.output_type == "error"]
        assert errors == ANNOUNCED.get(name, [])
        said = " ".join(" ".join(output.get("data", {}).get("text/plain", "") for output in outputs).split())
        assert said.count("The recording no longer fits") == MISFITS.get(name, 0)
        for number, story in enumerate(script_of(name).stories):
            if number not in UNANSWERED.get(name, set()):
                assert words(story.turns[-1]) in said
    close_notebooks(page)
    lab.close_kernels()


def words(turn: Turn) -> str:
    return " ".join(turn.content.split())


def decided_to_the_end(notebook: NotebookPage) -> bool:
    """Decide what waits, and say whether all cells have run."""
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
        card = page.locator(f".jp-Notebook [data-tool-call-id='{call}'][role=group]")
        if DENIED in (said := card.inner_text()) and "everything" not in said:
            notebook.press_until_reason("Keep raw as it is.", notebook.cards().count() - 1)
        else:
            card.get_by_role("button", name="Approve", exact=True).click()
    prompts: list[str] = page.evaluate(PROMPTS)
    return not any("*" in prompt or "[ ]" in prompt for prompt in prompts)
