"""The main job, in a browser, on servers of other kinds: Notebook 7, below a path, with a password and nothing else."""

from dataclasses import dataclass, field
from pathlib import Path

import pytest
from jupyter_server.auth import passwd
from playwright.sync_api import Page, expect

from agent_kernel.testing import call, say
from tests.e2e.lab import TOKEN, App, LabServer, NotebookPage
from tests.e2e.model import Gate, WrittenModel
from tests.e2e.records import assert_record_is_saved

pytestmark = [pytest.mark.e2e, pytest.mark.soak]

PASSWORD = "a password of the tests"
CELLS = ["%load_ext agent_kernel", "%%agent\nWhat is six times seven?", "product"]


@dataclass(frozen=True)
class ServerKind:
    app: App
    arguments: list[str] = field(default_factory=list)
    token: str = TOKEN


SERVERS = {
    "Notebook 7 below a path": ServerKind("notebook", ["--ServerApp.base_url=/user/x/"]),
    # Hashed cheaply: the tests do not guard a secret.
    "JupyterLab with a password, below a path": ServerKind(
        "jupyterlab",
        [
            "--ServerApp.base_url=/user/x/",
            f"--PasswordIdentityProvider.hashed_password={passwd(PASSWORD, 'sha256')}",
        ],
        token="",
    ),
}


def log_in(lab: LabServer, page: Page) -> None:
    page.goto(f"{lab.url}login")
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Log in").click()
    page.wait_for_url(lambda url: "login" not in url)


@pytest.mark.parametrize("name", SERVERS)
def test_a_call_is_approved_and_the_answer_follows(name: str, model: WrittenModel, page: Page, tmp_path: Path) -> None:
    kind, answer = SERVERS[name], Gate(say("Six times seven is **42**."))
    model.says(call("run_python", code="product = 6 * 7\nprint('the product is', product)"), answer)
    with LabServer(
        tmp_path, model.server.environment(), app=kind.app, arguments=kind.arguments, token=kind.token
    ) as lab:
        if not kind.token:
            log_in(lab, page)
        notebook = NotebookPage(lab, page, lab.write_notebook("analysis.ipynb", CELLS))
        notebook.run_through(1)
        notebook.wait_for_state("awaiting_approval", seconds=60)
        assert "token" not in page.url, "an address that is shown or shared must not hold the key to the server"
        notebook.save()
        notebook.reload()
        notebook.wait_for_state("awaiting_approval", seconds=60)
        notebook.press("Approve")
        notebook.wait_for_state("success")
        expect(notebook.card()).to_contain_text("the product is 42")
        answer.open()
        # A reloaded page keeps its cards, and gets the record with its next save.
        expect(notebook.page.get_by_text("Six times seven is 42.").first).to_be_visible()
        notebook.wait_for_end()
        notebook.run(2)
        assert notebook.text(2) == "42"
        assert_record_is_saved(notebook.save(), 1, "Six times seven is", "run_python")
