"""A page that is left open over restarts of its server: it says why nothing answers, and goes on by a press."""

import sqlite3
from contextlib import closing
from pathlib import Path

from playwright.sync_api import Page, expect

from agent_kernel.testing import call, say
from tests.e2e.lab import LabServer, NotebookPage
from tests.e2e.model import WrittenModel


def hold(log: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(log, isolation_level=None)
    connection.execute("PRAGMA locking_mode = EXCLUSIVE")
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("CREATE TABLE room (bytes)")
    connection.execute("DROP TABLE room")
    return connection


def test_a_page_that_is_left_open_over_restarts_is_told_why_nothing_answers_and_asks_again_in_a_new_kernel(
    tmp_path: Path, fresh_page: Page, model: WrittenModel
) -> None:
    log = tmp_path / "data" / "agent-kernel" / "agent-kernel.sqlite"
    model.says(call("run_python", code="1"), say("It is there."))
    dialog = fresh_page.locator(".jp-Dialog", has_text="Server Connection Error")
    fresh_page.add_locator_handler(dialog, lambda shown: shown.get_by_role("button").last.click())
    with LabServer(tmp_path, model.server.environment()) as lab:
        path = lab.write_notebook("open.ipynb", ["%load_ext agent_kernel", "%%agent\nGo."])
        notebook = NotebookPage(lab, fresh_page, path)
        notebook.run_through(1)
        notebook.wait_for_state("awaiting_approval")
        lab.kill()
        with closing(hold(log)):
            lab.start_again()
            bar = fresh_page.get_by_role("alert").filter(has_text="Agent Kernel does not work on this server")
            expect(bar).to_contain_text(str(log))
            expect(bar).to_contain_text("AgentKernelServer.data_dir")
            lab.kill()
        lab.start_again()
        expect(notebook.record()).to_contain_text("The server restarted, and the notebook's kernel is no longer there")
        notebook.record().get_by_role("button", name="Try again").click()
        expect(notebook.record()).to_contain_text("It is there.")
