"""The notebook goes on living around a run: other cells, reloads, closed pages, saved files."""

from typing import Any

import nbformat
from playwright.sync_api import Browser, Page, expect

from agent_kernel.testing import call, say
from tests.e2e.conftest import OpenNotebook
from tests.e2e.lab import LabServer, NotebookPage
from tests.e2e.model import WrittenModel
from tests.e2e.records import assert_record_is_saved, bundles
from tests.programs import wait_until

LOAD = "%load_ext agent_kernel"


def test_reload_while_a_call_waits_then_approve(open_notebook: OpenNotebook, model: WrittenModel) -> None:
    model.says(call("run_python", code="print('after the reload')"), say("It ran."))
    notebook = open_notebook([LOAD, "%%agent\nSay something."])
    notebook.run_through(1)
    notebook.wait_for_state("awaiting_approval")
    notebook.save()
    notebook.reload()
    notebook.wait_for_state("awaiting_approval")
    notebook.press("Approve")
    expect(notebook.page.get_by_text("It ran.").first).to_be_visible()
    notebook.wait_for_end()
    assert model.tool_results() == ["after the reload"]
    assert_record_is_saved(notebook.save(), 1, "It ran.", "after the reload")


def test_the_record_reaches_the_file_though_no_page_was_open_at_the_end(
    open_notebook: OpenNotebook, model: WrittenModel, lab: LabServer, page: Page, browser: Browser
) -> None:
    model.says(call("run_python", code="print('nobody looks')"), say("Finished while nobody looked."))
    notebook = open_notebook([LOAD, "%%agent\nTake your time."])
    notebook.run_through(1)
    notebook.wait_for_state("awaiting_approval")
    notebook.save()
    page.close()

    def only_one() -> Any:
        """Those of earlier tests are over once the server hears that their kernels are."""
        found = lab.api("GET", "agent-kernel/api/approvals?state=awaiting_approval")
        return found if len(found) == 1 else None

    (waiting,) = wait_until(only_one, "the call that waits")
    lab.api("POST", f"agent-kernel/api/approvals/{waiting['approval_id']}", {"approved": True})
    conversation = f"agent-kernel/api/conversations/{waiting['conversation_id']}"
    wait_until(lambda: lab.api("GET", conversation)["runs"][-1]["status"] == "complete", "the run to end")

    with browser.new_context(viewport={"width": 1200, "height": 900}) as context:
        again = NotebookPage(lab, context.new_page(), notebook.path)
        expect(again.page.get_by_text("Finished while nobody looked.").first).to_be_visible()
        expect(again.page.get_by_text("Error displaying widget")).to_have_count(0)
        saved = wait_until(lambda: _with_record(again), "the record in the saved file")
    assert_record_is_saved(saved, 1, "Finished while nobody looked.", "nobody looks")


def _with_record(notebook: NotebookPage) -> nbformat.NotebookNode | None:
    saved = notebook.save()
    return saved if any("data-agent-record" in data.get("text/html", "") for data in bundles(saved, 1)) else None
