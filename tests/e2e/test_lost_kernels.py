"""A kernel that went away with its server: the page that was left open goes on by a press."""

from pathlib import Path

from playwright.sync_api import Page, expect

from agent_kernel.testing import call, say
from tests.e2e.lab import LabServer, NotebookPage
from tests.e2e.model import WrittenModel


def test_try_again_after_a_restart_of_the_server_starts_a_kernel_and_asks_again(
    tmp_path: Path, fresh_page: Page, shared_model: WrittenModel
) -> None:
    shared_model.begin()
    shared_model.says(call("run_python", code="1"), say("It is there."))
    dialog = fresh_page.locator(".jp-Dialog", has_text="Server Connection Error")
    fresh_page.add_locator_handler(dialog, lambda shown: shown.get_by_role("button").last.click())
    with LabServer(tmp_path, shared_model.server.environment()) as lab:
        path = lab.write_notebook("open.ipynb", ["%load_ext agent_kernel", "%%agent\nGo."])
        notebook = NotebookPage(lab, fresh_page, path)
        notebook.run_through(1)
        notebook.wait_for_state("awaiting_approval")
        lab.kill()
        lab.start_again()
        expect(notebook.record()).to_contain_text("The server restarted, and the notebook's kernel is no longer there")
        notebook.record().get_by_role("button", name="Try again").click()
        expect(notebook.record()).to_contain_text("It is there.")
    shared_model.assert_consumed()
