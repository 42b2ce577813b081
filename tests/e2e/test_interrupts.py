"""The kernel's interrupt stops the agent that has the floor; a cell of the user's own comes before that."""

import re

from playwright.sync_api import TimeoutError as PageTimeoutError
from playwright.sync_api import expect

from agent_kernel.testing import call, say
from agent_kernel.testing.wire.chat import streamed
from tests.e2e.conftest import OpenNotebook
from tests.e2e.lab import LabServer, NotebookPage
from tests.e2e.model import WrittenModel
from tests.e2e.records import assert_record_is_saved
from tests.programs import wait_until

LOAD = "%load_ext agent_kernel"
NOTICE = "Stopped, because the kernel was interrupted."
ASLEEP = "import time\nprint('asleep', flush=True)\ntime.sleep(600)"


def press_toolbar(notebook: NotebookPage) -> None:
    notebook.page.locator("jp-button[data-command='notebook:interrupt-kernel']:visible").click()


def press_keys(notebook: NotebookPage) -> None:
    """I, I in command mode, as the cell has it after it was run."""
    notebook.command("notebook:enter-command-mode")
    expect(notebook.page.locator(".jp-Notebook.jp-mod-commandMode .jp-Cell.jp-mod-active")).to_be_focused()

    def pressed() -> bool:
        try:
            with notebook.page.expect_request("**/interrupt*", timeout=5_000):
                notebook.page.keyboard.press("i")
                notebook.page.keyboard.press("i")
        except PageTimeoutError:
            return False  # a second lay between the two, which are no chord then
        return True

    wait_until(pressed, "the kernel's interrupt to be asked for")


def stopped(notebook: NotebookPage, number: int = 0) -> None:
    """That record says why, in the neutral words of what was stopped."""
    record = notebook.record().nth(number)
    expect(record).to_contain_text(NOTICE)
    expect(record).to_contain_text("stopped")
    expect(record).not_to_contain_text("failed")


def test_the_kernels_interrupt_stops_the_agent_unless_a_cell_of_ones_own_runs(
    open_notebook: OpenNotebook, model: WrittenModel, lab: LabServer
) -> None:
    words = streamed(say("One word and another. " * 200), pause=0.05)
    model.says(words, call("run_python", code="ran = 1"), call("run_python", code=ASLEEP))
    cells = ["%%agent\nThink about it.", "%%agent\nAsk me.", "%%agent --policy allow\nTake ten minutes."]
    notebook = open_notebook([LOAD, *cells, "'ran' in globals()", ASLEEP, "%%agent --wait\nAsk me.", "'behind'"])
    notebook.run_through(1)
    expect(notebook.page.locator(".jp-Notebook [data-role=answer]")).to_contain_text("One word and another.")
    press_keys(notebook)
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

    model.says(call("run_python", code="ran = 1"), call("run_python", code="ran = 1"))
    notebook.run(6, wait=False)
    notebook.run(7, wait=False)
    notebook.wait_for_state("awaiting_approval")
    press_toolbar(notebook)
    stopped(notebook, 3)
    wait_until(lambda: notebook.outputs(6)[-1]["output_type"] == "error", "the cell to end")
    assert notebook.outputs(6)[-1]["traceback"] == ["KeyboardInterrupt: the agent's run was stopped."]
    assert notebook.text(7) == "", "Run all stops"
    assert_record_is_saved(notebook.save(), 6)

    notebook.run(2)
    notebook.wait_for_state("awaiting_approval")
    (kernel,) = lab.api("GET", "api/kernels")
    lab.api("POST", f"api/kernels/{kernel['id']}/restart")
    run = notebook.page.locator(".jp-Cell").nth(2)
    # Whether the kernel's word of the interrupt before it or the new process is heard of first makes the words.
    expect(run).to_contain_text(re.compile(r"Stopped, because the kernel was restarted( or shut down)?\."))
    expect(notebook.page.locator(".ak-bad")).to_have_count(0)
