"""The kernel's interrupt stops the agent that has the floor; a cell of the user's own comes before that."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect
from playwright.sync_api import TimeoutError as PageTimeoutError

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


WAYS = {"toolbar": press_toolbar, "keys": press_keys}


def stopped(notebook: NotebookPage) -> None:
    """The record says why, in the neutral words of what was stopped."""
    expect(notebook.record()).to_contain_text(NOTICE)
    expect(notebook.record()).to_contain_text("stopped")
    expect(notebook.record()).not_to_contain_text("failed")


@pytest.mark.parametrize("way", list(WAYS))
def test_while_the_model_writes(open_notebook: OpenNotebook, model: WrittenModel, way: str) -> None:
    model.says(streamed(say("One word and another. " * 200), pause=0.05))
    notebook = open_notebook([LOAD, "%%agent\nThink about it.", "6 * 7"])
    notebook.run_through(1)
    expect(notebook.page.locator("[data-role=answer]")).to_contain_text("One word and another.")
    WAYS[way](notebook)
    stopped(notebook)
    notebook.run(2)
    assert notebook.text(2) == "42"


@pytest.mark.parametrize("way", list(WAYS))
def test_while_a_card_waits(open_notebook: OpenNotebook, model: WrittenModel, way: str) -> None:
    model.says(call("run_python", code="ran = 1"))
    notebook = open_notebook([LOAD, "%%agent\nAsk me.", "'ran' in globals()"])
    notebook.run_through(1)
    notebook.wait_for_state("awaiting_approval")
    WAYS[way](notebook)
    stopped(notebook)
    expect(notebook.record()).to_contain_text("The user interrupted the kernel.")
    notebook.run(2)
    assert notebook.text(2) == "False"


@pytest.mark.parametrize("way", list(WAYS))
def test_while_a_call_runs_the_model_is_not_asked_on(
    open_notebook: OpenNotebook, model: WrittenModel, way: str
) -> None:
    model.says(call("run_python", code=ASLEEP))
    notebook = open_notebook([LOAD, "%%agent --policy allow\nTake ten minutes."])
    notebook.run_through(1)
    expect(notebook.card()).to_contain_text("asleep")
    WAYS[way](notebook)
    stopped(notebook)
    assert len(model.requests()) == 1


def test_a_cell_of_ones_own_that_runs_is_interrupted_and_the_card_goes_on_waiting(
    open_notebook: OpenNotebook, model: WrittenModel
) -> None:
    model.says(call("run_python", code="ran = 1"))
    notebook = open_notebook([LOAD, "%%agent\nAsk me.", ASLEEP])
    notebook.run_through(1)
    notebook.wait_for_state("awaiting_approval")
    notebook.run(2, wait=False)
    wait_until(lambda: "asleep" in notebook.text(2), "the cell to begin")
    press_toolbar(notebook)
    wait_until(lambda: notebook.outputs(2)[-1].get("ename") == "KeyboardInterrupt", "the cell to be interrupted")
    notebook.wait_until_idle()
    expect(notebook.card()).to_have_attribute("data-state", "awaiting_approval")
    press_toolbar(notebook)
    stopped(notebook)


def test_a_cell_that_waits_ends_in_one_line_with_its_record_and_run_all_stops(
    open_notebook: OpenNotebook, model: WrittenModel
) -> None:
    model.says(call("run_python", code="ran = 1"))
    notebook = open_notebook([LOAD, "%%agent --wait\nAsk me.", "'behind'"])
    notebook.run(0)
    notebook.run(1, wait=False)
    notebook.run(2, wait=False)
    notebook.wait_for_state("awaiting_approval")
    press_toolbar(notebook)
    stopped(notebook)
    wait_until(lambda: notebook.outputs(1)[-1]["output_type"] == "error", "the cell to end")
    assert notebook.outputs(1)[-1]["traceback"] == ["KeyboardInterrupt: the agent's run was stopped."]
    assert notebook.text(2) == ""
    assert_record_is_saved(notebook.save(), 1)


def test_ones_own_restart_is_no_failure(open_notebook: OpenNotebook, model: WrittenModel, lab: LabServer) -> None:
    model.says(call("run_python", code="ran = 1"))
    notebook = open_notebook([LOAD, "%%agent\nAsk me."])
    notebook.run_through(1)
    notebook.wait_for_state("awaiting_approval")
    (kernel,) = lab.api("GET", "api/kernels")
    lab.api("POST", f"api/kernels/{kernel['id']}/restart")
    run = notebook.page.locator("[data-agent-record], .ak-run").first
    # Whether the kernel's word of the interrupt before it or the new process is heard of first makes the words.
    expect(run).to_contain_text(re.compile(r"Stopped, because the kernel was restarted( or shut down)?\."))
    expect(notebook.page.locator(".ak-bad")).to_have_count(0)


@pytest.fixture(scope="module")
def notebook_7(shared_model: WrittenModel, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabServer]:
    home = tmp_path_factory.mktemp("notebook")
    with LabServer(home, shared_model.server.environment(), app="notebook") as server:
        yield server


def test_in_notebook_7_while_a_card_waits(notebook_7: LabServer, page: Page, model: WrittenModel) -> None:
    model.says(call("run_python", code="ran = 1"))
    path = notebook_7.write_notebook("interrupts.ipynb", [LOAD, "%%agent\nAsk me."])
    notebook = NotebookPage(notebook_7, page, path)
    notebook.run_through(1)
    notebook.wait_for_state("awaiting_approval")
    press_keys(notebook)
    stopped(notebook)
