"""What the card of a changed file says to a person, in JupyterLab."""

import re

from playwright.sync_api import Route, expect

from agent_kernel.testing import call, calls, say
from tests.e2e.conftest import OpenNotebook
from tests.e2e.lab import LOAD_READY
from tests.e2e.model import WrittenModel


def test_a_change_is_undone_from_its_record_after_a_reload_and_refused_once_the_file_was_changed(
    open_notebook: OpenNotebook, model: WrittenModel
) -> None:
    writes = [call("write_file", path=name, content="new\n", call_id=name) for name in ("first.md", "second.md")]
    model.says(calls(*writes), say("Both are written."), say("I see."))
    notebook = open_notebook([LOAD_READY, "%%agent --policy allow\nWrite both.", "%%agent\nAnd now?"])
    first, second = (notebook.path.parent / name for name in ("first.md", "second.md"))
    first.write_text("old\n")
    notebook.run_through(1)
    expect(notebook.record()).to_contain_text("Both are written.")
    undo = notebook.page.get_by_role("button", name="Undo: Write first.md")
    expect(undo).to_be_visible()
    notebook.save()
    notebook.reload()
    expect(notebook.record()).to_contain_text("Puts back the file of")
    undo.click()
    expect(notebook.record()).to_contain_text("Undone: first.md is as it was before. The model is told.")
    assert first.read_text() == "old\n"
    expect(undo).to_have_count(0)

    def change(route: Route) -> None:
        second.write_text("mine\n")
        route.continue_()

    notebook.page.route("**/undo*", change)  # before, the page would see the change and offer nothing
    notebook.page.get_by_role("button", name="Undo: Write second.md").click()
    # The refusal, and once the page has looked again what is the matter with the file.
    expect(notebook.record()).to_contain_text(re.compile("The file was changed since|second.md was changed since"))
    assert second.read_text() == "mine\n"
    notebook.run(2)
    expect(notebook.record().last).to_contain_text("I see.")
    assert "I have undone your write_file call: first.md" in model.requests()[-1][-2]["content"]
    expect(notebook.record().first).to_contain_text("second.md was changed since.")
    notebook.lab.close_kernels()
    expect(notebook.page.get_by_text("second.md was changed since.")).to_have_count(0)
