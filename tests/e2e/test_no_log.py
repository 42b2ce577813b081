"""A server whose log another process holds alone: the page says which file, and what to do."""

import sqlite3
from contextlib import closing
from pathlib import Path

from playwright.sync_api import Page, expect

from agent_kernel.testing import call
from tests.e2e.lab import LabServer, NotebookPage
from tests.e2e.model import WrittenModel


def hold(log: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(log, isolation_level=None)
    connection.execute("PRAGMA locking_mode = EXCLUSIVE")
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("CREATE TABLE room (bytes)")
    connection.execute("DROP TABLE room")
    return connection


def test_a_page_that_is_left_open_over_a_restart_is_told_why_nothing_answers(
    tmp_path: Path, fresh_page: Page, shared_model: WrittenModel
) -> None:
    log = tmp_path / "data" / "agent-kernel" / "agent-kernel.sqlite"
    shared_model.begin()
    shared_model.says(call("run_python", code="1"))
    with LabServer(tmp_path, shared_model.server.environment()) as lab:
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
