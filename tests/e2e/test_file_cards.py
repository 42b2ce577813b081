"""What the card of a changed file says to a person, in JupyterLab."""

import re

from playwright.sync_api import Route, expect

from agent_kernel.testing import call, calls, say
from tests.e2e.conftest import OpenNotebook
from tests.e2e.lab import LOAD_READY
from tests.e2e.model import Gate, WrittenModel

LINES = 5_000


def rows(count: int, changed: int | None = None) -> str:
    return "".join(f"{n},order {n % 97},{'paid' if n == changed else 'open'}\n" for n in range(count))


def test_overwriting_a_large_file_shows_what_changes_and_what_it_replaces(
    open_notebook: OpenNotebook, model: WrittenModel
) -> None:
    gate = Gate(say("Done."))
    new = "".join(f"{n};{n % 97};open\n" for n in range(1_500))
    model.says(
        call("write_file", path="orders.csv", content=rows(LINES, changed=4_321)),
        call("write_file", path="orders.csv", content=new),
        gate,
    )
    notebook = open_notebook([LOAD_READY, "%%agent\nMark order 4,321 as paid, then use semicolons."])
    orders = notebook.path.parent / "orders.csv"
    orders.write_text(rows(LINES))
    notebook.run_through(1)
    notebook.wait_for_state("awaiting_approval")
    card = notebook.card()
    expect(card).to_contain_text("Replaces 93 kB, 5,000 lines.")
    expect(card).to_contain_text("@@ -4319,7 +4319,7 @@")
    expect(card.locator(".ak-del")).to_have_count(1)
    expect(card.locator(".ak-add")).to_contain_text("4321,order 53,paid")
    expect(card).not_to_contain_text("new file")
    notebook.press("Approve")
    notebook.wait_for_state("awaiting_approval", 1)
    card = notebook.card(1)
    expect(card).to_contain_text("4,940 more lines are removed")
    expect(card).to_contain_text("Long changes are shown in part.")
    card.get_by_role("button", name="All of the new content, 1,500 lines").click()
    expect(card.locator("[data-role=code]")).to_contain_text("1499;44;open")
    orders.write_text("mine\n")
    notebook.press("Approve", 1)
    notebook.wait_for_state("error", 1)
    expect(notebook.card(1)).to_contain_text("was changed after this call was shown to the user. Nothing was written.")
    assert orders.read_text() == "mine\n"
    gate.open()
    expect(notebook.record()).to_contain_text("Done.")


def test_an_edit_shows_its_surroundings_and_a_link_where_it_leads(
    open_notebook: OpenNotebook, model: WrittenModel
) -> None:
    gate = Gate(say("Done."))
    model.says(
        call("edit_file", path="weekly-notes.md", old_text="week 250\n", new_text="week 250, revised\n"),
        call("write_file", path="../outside/new/plan.md", content="# Plan\n"),
        gate,
    )
    notebook = open_notebook([LOAD_READY, "%%agent\nRevise the notes."])
    folder = notebook.path.parent
    shared = folder / "shared_notes"
    shared.mkdir()
    (shared / "weekly-notes.md").write_text("".join(f"week {n}\n" for n in range(500)))
    (folder / "weekly-notes.md").symlink_to("shared_notes/weekly-notes.md")
    notebook.run_through(1)
    notebook.wait_for_state("awaiting_approval")
    card = notebook.card()
    expect(card).to_contain_text("Follows a link: weekly-notes.md is a link to shared_notes/weekly-notes.md")
    expect(card).to_contain_text("@@ -248,7 +248,7 @@")
    expect(card.locator(".ak-l").first).to_contain_text("248248 week 247")
    notebook.press("Approve")
    notebook.wait_for_state("awaiting_approval", 1)
    card = notebook.card(1)
    expect(card).to_contain_text("Makes the folder ")
    expect(card).to_contain_text(f"Outside this notebook's folder: {(folder / '../outside/new/plan.md').resolve()}")
    notebook.press_until_reason("Not there", 1)
    assert "week 250, revised\nweek 251" in (shared / "weekly-notes.md").read_text()
    assert (folder / "weekly-notes.md").is_symlink()
    gate.open()
    expect(notebook.record()).to_contain_text("Done.")


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
    undo = notebook.page.get_by_role("button", name="Undo write_file first.md")
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
    notebook.page.get_by_role("button", name="Undo write_file second.md").click()
    # The refusal, and once the page has looked again what is the matter with the file.
    expect(notebook.record()).to_contain_text(re.compile("Not undone. The file was changed|second.md was changed"))
    assert second.read_text() == "mine\n"
    notebook.run(2)
    expect(notebook.record().last).to_contain_text("I see.")
    assert "I have undone your write_file call: first.md" in model.requests()[-1][-2]["content"]
    expect(notebook.record().first).to_contain_text("second.md was changed since.")
    notebook.lab.close_kernels()
    expect(notebook.page.get_by_text("second.md was changed since.")).to_have_count(0)
