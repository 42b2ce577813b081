"""axe-core finds nothing in cards, a record and the panel, in either theme."""

from pathlib import Path
from typing import Any

from playwright.sync_api import Page, expect

from agent_kernel.testing import call, calls, say
from tests.e2e.conftest import OpenNotebook
from tests.e2e.lab import NotebookPage
from tests.e2e.model import WrittenModel

AXE = Path(__file__).parents[2] / "widgets" / "node_modules" / "axe-core" / "axe.min.js"
OURS = [".ak-run", ".jp-OutputArea:has([data-agent-record])", ".agent-kernel-runs"]
EXAMINE = """async places => {
  const include = places.filter(place => document.querySelector(place)).map(place => [place]);
  const { violations } = await axe.run({ include }, { resultTypes: ['violations'] });
  return violations.filter(one => one.impact !== 'minor').map(
    ({ id, impact, nodes }) => [id, impact, ...nodes.map(node => `${node.target} ${node.failureSummary}`)]);
}"""
CELLS = ["%load_ext agent_kernel", "%%agent --policy allow\nLook.", "%%agent --new\nMend it, and tell me."]
TABLE = "import pandas as pd\nprint('a\\n' * 40)\npd.DataFrame({'fruit': ['apple', 'pear'], 'weight': [3, 5]})"
WRITES = "import os\nos.remove('old.csv')  # and a comment\nprint(f'{1 + 1} left')"


def violations(notebook: NotebookPage) -> dict[str, Any]:
    found = {}
    for theme in ("Dark", "Light"):
        notebook.command("apputils:change-theme", theme=f"JupyterLab {theme}")
        expect(notebook.page.locator("body")).to_have_attribute("data-jp-theme-light", str(theme == "Light").lower())
        expect(notebook.page.locator("#jupyterlab-splash")).to_have_count(0)
        found[theme] = notebook.page.evaluate(EXAMINE, OURS)
    return found


def test_axe_finds_nothing_in_cards_a_record_and_the_panel(
    open_notebook: OpenNotebook, model: WrittenModel, page: Page
) -> None:
    nothing: dict[str, Any] = {"Dark": [], "Light": []}
    model.says(
        calls(call("run_python", code=TABLE), call("run_python", code="1 / 0")),
        say("There are **two**, and `pear` is heavier:\n\n| a | b |\n| - | - |\n| 1 | 2 |\n\n```python\nx = 1\n```"),
        calls(
            call("run_python", code=WRITES),
            call("write_file", path="notes.md", content="# Notes\n"),
            call("ask_user", question="Which copy stays?", choices=["The first", "The last"]),
        ),
    )
    notebook = open_notebook(CELLS)
    page.set_viewport_size({"width": 1400, "height": 1400})
    notebook.run_through(1)
    expect(notebook.record()).to_contain_text("There are")
    for fold in notebook.record().locator("summary").all():
        fold.click()
    notebook.run(2)
    notebook.wait_for_state("awaiting_approval")
    notebook.wait_for_state("awaiting_approval", card=1)
    notebook.command("agent-kernel:show-runs")
    expect(page.get_by_role("region", name="What Waits and What Ran").locator("li[data-waits]")).to_have_count(1)
    page.evaluate(AXE.read_text())
    assert violations(notebook) == nothing

    for name in ("Edit", "Deny", "Always allow"):
        notebook.press(name)
        assert violations(notebook) == nothing, name
        page.keyboard.press("Escape")
    page.locator(".ak-run").get_by_role("button", name="Policy").click()
    page.locator(".agent-kernel-run-head").first.click()
    assert violations(notebook) == nothing, "the rules, and cards in the panel"
    page.locator(".jp-Notebook .ak-run").get_by_role("button", name="Stop", exact=True).click()
    expect(notebook.record()).to_have_count(2)
    assert violations(notebook) == nothing, "what was stopped"
