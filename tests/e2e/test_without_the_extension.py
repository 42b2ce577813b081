"""A Jupyter server that does not have the extension: the agent lives in the kernel, and its cards work all the same."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect

from agent_kernel.testing import call, say
from tests.e2e.conftest import OpenNotebook
from tests.e2e.lab import LabServer
from tests.e2e.model import WrittenModel

COLD_SECONDS = 90  # a kernel that has run no agent yet imports the graph first
LOAD_COLD = f"""%load_ext agent_kernel
from agent_kernel.notebook.hosts import embedded
embedded.CLIENT_SECONDS = {COLD_SECONDS}"""
"""The page loads the cards for the first time, too, and a call that no page has asked about is denied after a while."""


@pytest.fixture
def lab(shared_model: WrittenModel, tmp_path: Path) -> Iterator[LabServer]:
    with LabServer(tmp_path, shared_model.server.environment(), extension=False) as server:
        yield server


def test_a_card_is_answered_while_the_cell_waits_once_the_notebook_is_trusted(
    open_notebook: OpenNotebook, model: WrittenModel
) -> None:
    model.says(call("run_python", code="product = 6 * 7\nprint('the product is', product)"), say("It is 42."))
    notebook = open_notebook([LOAD_COLD, "%%agent\nSix times seven?", "product"])
    notebook.run(0)
    notebook.run(1, wait=False)
    notebook.wait_for_state("awaiting_approval", seconds=COLD_SECONDS)
    page = notebook.page
    page.evaluate("window.jupyterapp.shell.currentWidget.content.widgets[1].model.trusted = false")
    expect(notebook.cards()).to_have_count(0)
    page.get_by_role("button", name="Trust this notebook to see the cards").click()
    page.locator(".jp-Dialog").get_by_role("button", name="Trust").click()
    expect(page.locator("[data-role=unserved]")).to_contain_text("A prompt holds its cell here")
    expect(page.locator("[data-role=unserved] code")).to_have_text("agent-kernel doctor")
    notebook.press("Approve")
    expect(notebook.record()).to_contain_text("It is 42.")
    notebook.run(2)
    assert notebook.text(2) == "42"
    assert model.tool_results() == ["the product is 42"]
