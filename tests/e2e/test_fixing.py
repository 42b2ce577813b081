"""The scene that the guide's page on fixing tells: a cell fails, Fix is pressed, one approval mends and runs it, and
Ctrl+Z takes that back. Played in JupyterLab and in Notebook 7."""

from typing import Any

import nbformat
import pytest
from playwright.sync_api import Page, expect

from agent_kernel.testing import call, say
from tests.e2e.lab import LabServer, NotebookPage
from tests.e2e.model import WrittenModel
from tests.programs import wait_until

TABLE = """\
import pandas as pd

sales = pd.DataFrame({"region": ["north", "south"], "price": [2.5, 4.0], "units": [4, 8]})"""
FAILS = """(sales["prise"] * sales["units"]).sum()"""
MENDED = """(sales["price"] * sales["units"]).sum()"""


def open_scene(lab: LabServer, page: Page) -> NotebookPage:
    """A notebook that knows nothing of an agent, whose second cell has failed."""
    path = lab.write_notebook("sales.ipynb", [TABLE, FAILS, "'the last'"])
    notebook = nbformat.read(path, as_version=4)
    for cell, name in zip(notebook.cells, ("table", "revenue", "last"), strict=True):
        cell.id = name
    nbformat.write(notebook, path)
    opened = NotebookPage(lab, page, path)
    opened.run(0)
    opened.run(1)
    return opened


def play(notebook: NotebookPage, model: WrittenModel) -> None:
    """One press, one approval, one undo."""
    page = notebook.page
    model.says(call("edit_cell", cell_id="revenue", source=MENDED, run=True), say("The column is `price`."))
    before = notebook.save()
    page.get_by_role("button", name="Fix", exact=True).click()
    notebook.wait_for_state("awaiting_approval")
    expect_told(model.requests()[0])
    expect(notebook.card().locator(".ak-head")).to_contain_text("Edit cell [2]")
    difference = notebook.card().locator("[data-role=diff]")
    expect(difference.locator(".ak-del")).to_have_count(1)
    expect(difference.locator(".ak-del")).to_contain_text(FAILS)
    expect(difference.locator(".ak-add")).to_contain_text(MENDED)
    assert notebook.sources()[1] == FAILS, "nothing is done before the approval"
    notebook.press("Approve")
    expect(notebook.record()).to_contain_text("The column is price.")
    assert notebook.cards().count() == 0, "there was one card"
    assert (notebook.sources()[1], notebook.prompt_number(1)) == (MENDED, 4)
    assert notebook.text(1).endswith("42.0)")
    assert "Ran cell:revenue as [4]" in model.tool_results()[0]
    saved = notebook.save()
    assert changed_cells(before, saved) == ["revenue"]
    assert cells_by_id(saved)["revenue"].outputs[0].output_type == "execute_result"
    page.locator(".jp-Cell .cm-content").nth(1).click()
    page.keyboard.press("Control+z")
    wait_until(lambda: notebook.sources()[1] == FAILS, "the source as it was")
    after = cells_by_id(notebook.save())
    assert (after["revenue"].source, after["revenue"].outputs) == (FAILS, cells_by_id(saved)["revenue"].outputs)


def expect_told(messages: list[dict[str, Any]]) -> None:
    """What the model is sent with the press: the error, the cell by its id and source, the table's columns."""
    told = str(messages[-1]["content"])
    assert told.startswith("Fix the error of @cell:revenue")
    for part in (
        "- sales: pandas.DataFrame 2 x 3, columns: region (str), price (float64), units (int64)",
        f"failed: KeyError: 'prise'\n    Cell In[2], line 1\n        {FAILS}\n",
        f"@cell:revenue is [2] cell:revenue (code, number 1)\n{FAILS}\n",
    ):
        assert part in told, told


def cells_by_id(notebook: nbformat.NotebookNode) -> dict[str, nbformat.NotebookNode]:
    return {cell.id: cell for cell in notebook.cells}


def changed_cells(before: nbformat.NotebookNode, after: nbformat.NotebookNode) -> list[str]:
    """The ids of the cells that were there before and are others now; all else has to be as it was, but for the
    prompt's own cell."""
    old, new = cells_by_id(before), cells_by_id(after)
    assert {**before, "cells": []} == {**after, "cells": []}
    [prompt] = [one for name, one in new.items() if name not in old]
    assert prompt.source.startswith("%%agent")
    assert [name for name in new if name in old] == list(old)
    return [name for name, cell in old.items() if cell != new[name]]


@pytest.mark.parametrize("place", ["lab", "notebook_7"])
def test_a_failing_cell_is_mended_by_one_press_and_one_approval_and_put_back_by_ctrl_z(
    place: str, request: pytest.FixtureRequest, model: WrittenModel, page: Page
) -> None:
    server = request.getfixturevalue(place)
    play(open_scene(server, page), model)
    server.close_kernels()
