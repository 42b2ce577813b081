"""What the card of a changed file says to a person, in JupyterLab."""

from playwright.sync_api import expect

from agent_kernel.testing import call, say
from tests.e2e.conftest import OpenNotebook
from tests.e2e.lab import LOAD_READY
from tests.e2e.model import WrittenModel


def test_a_change_is_undone_from_its_record_after_a_reload_and_the_model_is_told(
    open_notebook: OpenNotebook, model: WrittenModel
) -> None:
    model.says(call("write_file", path="first.md", content="new\n"), say("It is written."), say("I see."))
    notebook = open_notebook([LOAD_READY, "%%agent --policy allow\nWrite it.", "%%agent\nAnd now?"])
    file = notebook.path.parent / "first.md"
    file.write_text("old\n")
    notebook.run_through(1)
    expect(notebook.record()).to_contain_text("It is written.")
    assert file.read_text() == "new\n"
    notebook.save()
    notebook.reload()
    undo = notebook.page.get_by_role("button", name="Undo: Write first.md")
    undo.click()
    expect(notebook.record()).to_contain_text("Undone: first.md is as it was before. The model is told.")
    assert file.read_text() == "old\n"
    expect(undo).to_have_count(0)
    notebook.run(2)
    expect(notebook.record().last).to_contain_text("I see.")
    assert "I have undone your write_file call: first.md" in model.requests()[-1][-2]["content"]
