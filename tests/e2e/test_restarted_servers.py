"""A page that is left open over restarts of its server: it says why nothing answers, and goes on by a press."""

from pathlib import Path

from playwright.sync_api import Page, expect

from agent_kernel.testing import call, say
from tests.e2e.lab import LabServer, NotebookPage
from tests.e2e.model import WrittenModel


def test_a_page_that_is_left_open_over_restarts_is_told_why_nothing_answers_and_asks_again_in_a_new_kernel(
    tmp_path: Path, fresh_page: Page, model: WrittenModel
) -> None:
    model.says(call("run_python", code="1"), say("It is there."))
    dialog = fresh_page.locator(".jp-Dialog", has_text="Server Connection Error")
    fresh_page.add_locator_handler(dialog, lambda shown: shown.get_by_role("button").last.click())
    with LabServer(tmp_path, model.server.environment()) as lab:
        path = lab.write_notebook("open.ipynb", ["%load_ext agent_kernel", "%%agent\nGo."])
        notebook = NotebookPage(lab, fresh_page, path)
        notebook.run_through(1)
        notebook.wait_for_state("awaiting_approval")
        lab.kill()
        lab.start_again()
        expect(notebook.record()).to_contain_text("The server restarted, and the notebook's kernel is no longer there")
        notebook.record().get_by_role("button", name="Try again").click()
        expect(notebook.record()).to_contain_text("It is there.")
