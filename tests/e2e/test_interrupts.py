"""The kernel's interrupt stops the agent that has the floor; a cell of the user's own comes before that."""

import re

from playwright.sync_api import expect

from agent_kernel.testing import call, say
from agent_kernel.testing.wire.chat import streamed
from tests.e2e.conftest import OpenNotebook
from tests.e2e.lab import LabServer, NotebookPage
from tests.e2e.model import WrittenModel
from tests.programs import wait_until

LOAD = "%load_ext agent_kernel"
ASLEEP = "import time\nprint('asleep', flush=True)\ntime.sleep(600)"


def press_toolbar(notebook: NotebookPage) -> None:
    notebook.page.locator("jp-button[data-command='notebook:interrupt-kernel']:visible").click()


def stopped(notebook: NotebookPage, number: int) -> None:
    """That record says why, in the neutral words of what was stopped."""
    expect(notebook.record().nth(number)).to_contain_text("Stopped, because the kernel was interrupted.")
    expect(notebook.record().nth(number)).not_to_contain_text("failed")


def test_the_kernels_interrupt_stops_the_agent_unless_a_cell_of_ones_own_runs(
    open_notebook: OpenNotebook, model: WrittenModel, lab: LabServer
) -> None:
    words = streamed(say("One word and another. " * 200), pause=0.05)
    asks = call("run_python", code="ran = 1")
    model.says(words, asks, call("run_python", code=ASLEEP), asks)
    cells = ["%%agent\nThink about it.", "%%agent\nAsk me.", "%%agent --policy allow\nTake ten minutes."]
    notebook = open_notebook([LOAD, *cells, "'ran' in globals()", ASLEEP])
    notebook.run_through(1)
    expect(notebook.page.locator(".jp-Notebook [data-role=answer]")).to_contain_text("One word and another.")
    press_toolbar(notebook)
    stopped(notebook, 0)

    notebook.run(2)
    notebook.wait_for_state("awaiting_approval")
    notebook.run(5, wait=False)
    wait_until(lambda: "asleep" in notebook.text(5), "the cell to begin")
    press_toolbar(notebook)
    wait_until(lambda: notebook.outputs(5)[-1].get("ename") == "KeyboardInterrupt", "the cell to be interrupted")
    notebook.wait_until_idle()
    expect(notebook.card()).to_have_attribute("data-state", "awaiting_approval")
    press_toolbar(notebook)
    stopped(notebook, 1)
    expect(notebook.record().nth(1)).to_contain_text("The user interrupted the kernel.")

    notebook.run(3)
    expect(notebook.card()).to_contain_text("asleep")
    press_toolbar(notebook)
    stopped(notebook, 2)
    assert len(model.requests()) == 3, "the model was asked on"
    notebook.run(4)
    assert notebook.text(4) == "False"

    notebook.run(2)
    notebook.wait_for_state("awaiting_approval")
    (kernel,) = lab.api("GET", "api/kernels")
    lab.api("POST", f"api/kernels/{kernel['id']}/restart")
    run = notebook.page.locator(".jp-Cell").nth(2)
    # Whether the kernel's word of the interrupt before it or the new process is heard of first makes the words.
    expect(run).to_contain_text(re.compile(r"Stopped, because the kernel was restarted( or shut down)?\."))
    expect(notebook.page.locator(".ak-bad")).to_have_count(0)
