"""What a person lets run unasked, and takes back."""

from playwright.sync_api import expect

from agent_kernel.testing import call, say
from tests.e2e.conftest import OpenNotebook
from tests.e2e.lab import LOAD_READY
from tests.e2e.model import Gate, WrittenModel


def test_always_allow_covers_what_it_says_until_the_rule_is_removed(
    open_notebook: OpenNotebook, model: WrittenModel
) -> None:
    def write(path: str) -> Gate:
        return Gate(call("write_file", path=path, content="week,orders\n"))

    names = "exports/a.csv", "exports/b.csv", "b.csv", "exports/c.csv"
    turns = [write(name) for name in names]
    turns[0].open()
    answer = Gate(say("Written."))
    model.says(*turns, answer)
    notebook = open_notebook([LOAD_READY, "%%agent\nWrite the weeks."])
    notebook.run_through(1)
    notebook.wait_for_state("awaiting_approval")
    notebook.press("Always allow")
    notebook.card().get_by_text("CSV files in exports/").click()
    rule = 'allow write_file where path matches "exports/*.csv"'
    expect(notebook.card()).to_contain_text(f"{rule} in this conversation")
    notebook.press("Save rule and approve")
    notebook.wait_for_state("success")

    turns[1].open()
    notebook.wait_for_state("success", 1)
    turns[2].open()
    notebook.wait_for_state("awaiting_approval", 2)  # of another folder
    badge = notebook.page.get_by_role("button", name="Policy: Asks before acting, 1 always-allow rule")
    badge.click()
    expect(notebook.page.get_by_role("group", name="Policy in force")).to_contain_text(rule)
    notebook.page.get_by_role("button", name="Remove", exact=True).click()
    expect(notebook.page.get_by_role("button", name="Policy: Asks before acting", exact=True)).to_be_visible()
    notebook.press("Approve", 2)
    turns[3].open()
    notebook.wait_for_state("awaiting_approval", 3)  # in the folder, without the rule
    notebook.press("Approve", 3)
    answer.open()
    expect(notebook.record()).to_contain_text("Written.")
    assert all((notebook.path.parent / name).exists() for name in names)
