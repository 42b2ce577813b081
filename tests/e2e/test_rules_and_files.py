"""What a person lets run unasked, and takes back: rules and written files."""

from playwright.sync_api import expect

from agent_kernel.record.words import ACTIONS
from agent_kernel.testing import call, say
from tests.e2e.conftest import OpenNotebook
from tests.e2e.lab import LOAD_READY
from tests.e2e.model import Gate, WrittenModel


def test_always_allow_covers_what_it_says_until_the_rule_is_removed(
    open_notebook: OpenNotebook, model: WrittenModel
) -> None:
    def write(path: str) -> Gate:
        return Gate(call("write_file", path=path, content="week,orders\n"))

    turns = [
        write("exports/a.csv"),
        write("exports/b.csv"),
        write("b.csv"),
        write("exports/c.csv"),
        write("exports/d.csv"),
    ]
    turns[0].open()
    answer = Gate(say("Written."))
    model.says(*turns, answer)
    notebook = open_notebook([LOAD_READY, "%%agent\nWrite the weeks."])
    notebook.run_through(1)
    notebook.wait_for_state("awaiting_approval")
    expect(notebook.card()).to_contain_text("new file, 1 line")
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
    notebook.press(ACTIONS["dontAsk"], 3)
    expect(notebook.card(3)).to_contain_text(f"{rule} in this run")
    notebook.press(ACTIONS["allowInRun"], 3)
    turns[4].open()
    notebook.wait_for_state("success", 4)
    expect(badge).to_be_visible()
    answer.open()
    expect(notebook.record()).to_contain_text("Written.")
    folder = notebook.path.parent
    assert [(folder / name).exists() for name in ("exports/a.csv", "exports/b.csv", "b.csv", "exports/d.csv")] == [
        True
    ] * 4


def test_a_folders_instructions_are_named_and_switched_off_for_the_next_prompts(
    open_notebook: OpenNotebook, model: WrittenModel
) -> None:
    answer = Gate(say("In blue."))
    model.says(answer, say("As you like."))
    notebook = open_notebook([LOAD_READY, "%%agent\nPlot the weeks.", "%%agent\nAgain."])
    path = notebook.path.parent / "AGENTS.md"
    path.write_text("Plots are blue.")
    try:
        notebook.run_through(1)
        header = notebook.page.get_by_role("group", name="Agent run")
        expect(header).to_contain_text("follows AGENTS.md")
        notebook.page.get_by_role("button", name="Policy: Asks before acting").click()
        panel = notebook.page.get_by_role("group", name="Instructions")
        panel.get_by_text("What it says").click()
        expect(panel.get_by_text("Plots are blue.")).to_be_visible()
        panel.get_by_role("button", name="Switch off").click()
        expect(panel).to_contain_text("AGENTS.md switched off for the next prompts of this conversation")
        expect(header).not_to_contain_text("follows")
        answer.open()
        expect(notebook.record()).to_contain_text("In blue.")
        notebook.run(2)
        expect(notebook.record().filter(has_text="As you like.")).to_be_visible()
    finally:
        path.unlink()
    assert ["Plots are blue." in str(request[0]["content"]) for request in model.requests()] == [True, False]
