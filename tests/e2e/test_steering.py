"""What a person changes about a run while it goes on."""

from playwright.sync_api import expect

from agent_kernel.testing import call, calls, say
from tests.e2e.conftest import OpenNotebook
from tests.e2e.model import Gate, WrittenModel

LOAD = "%load_ext agent_kernel"


def test_a_folders_instructions_are_switched_off_and_the_policy_is_switched_mid_run(
    open_notebook: OpenNotebook, model: WrittenModel
) -> None:
    both = calls(*(call("run_python", code=f"a = {one}", call_id=f"c{one}") for one in (1, 2)))
    answer = Gate(say("All done."))
    model.says(both, call("run_python", code="b = 3"), answer, say("As you like."))
    notebook = open_notebook([LOAD, "%%agent\nCount.", "%%agent\nAgain."])
    path = notebook.path.parent / "AGENTS.md"
    path.write_text("Plots are blue.")
    try:
        notebook.run_through(1)
        notebook.wait_for_state("awaiting_approval", 1)
        page = notebook.page
        header = page.locator(".jp-Notebook").get_by_role("group", name="Agent run")
        expect(header).to_contain_text("follows AGENTS.md")
        page.get_by_role("button", name="Policy: Asks before acting", exact=True).click()
        files = page.get_by_role("group", name="Instructions")
        files.get_by_role("button", name="Switch off").click()
        expect(files).to_contain_text("AGENTS.md switched off for the next prompts of this conversation")
        expect(header).not_to_contain_text("follows")

        panel = page.get_by_role("group", name="Policy in force")
        panel.get_by_text("Allow", exact=True).click()
        panel.get_by_role("button", name="Switch to Allow").click()
        expect(page.get_by_role("button", name="Policy: Acts without asking", exact=True)).to_be_visible()
        notebook.wait_for_state("awaiting_approval", 0)  # those on screen are the person's still
        notebook.press("Approve", 0)
        expect(page.locator("[data-guarded]")).to_have_count(0)
        notebook.press("Approve", 1)
        notebook.wait_for_state("success", 2)
        answer.open()
        expect(notebook.record()).to_contain_text("All done.")
        notebook.run(2)
        expect(notebook.record().filter(has_text="As you like.")).to_be_visible()
    finally:
        path.unlink()
    told = ["Plots are blue." in str(request[0]["content"]) for request in model.requests()]
    assert (told[0], told[-1]) == (True, False)


def test_new_conversation_runs_the_prompt_again_without_what_was_said_and_later_prompts_continue_there(
    open_notebook: OpenNotebook, model: WrittenModel
) -> None:
    asks = call("run_python", code="print('never')")
    model.says(say("One."), asks, call("run_python", code="print('again')"), say("Two."), say("Three."))
    notebook = open_notebook([LOAD, "%%agent\nFirst.", "%%agent\nSecond.", "%%agent\nThird."])
    notebook.run_through(1)
    expect(notebook.record()).to_contain_text("One.")
    notebook.run(2)
    expect(notebook.card()).to_contain_text("print('never')")
    notebook.wait_for_state("awaiting_approval")
    header = notebook.page.locator(".jp-Notebook").get_by_role("group", name="Agent run")
    expect(header).to_contain_text(f"continues from [{notebook.prompt_number(1)}]")
    header.get_by_role("button", name="New conversation", exact=True).click()
    expect(notebook.card()).to_contain_text("print('again')")
    notebook.wait_for_state("awaiting_approval")
    expect(notebook.cards()).to_have_count(1)
    expect(header.get_by_role("button", name="New conversation", exact=True)).to_have_count(0)
    notebook.press("Approve")
    expect(notebook.record().nth(1)).to_contain_text("Two.")
    assert asked(model) == ["Second."]
    notebook.run(3)
    expect(notebook.record().nth(2)).to_contain_text("Three.")
    assert asked(model) == ["Second.", "Third."]
    assert "agentKernelNewConversation" not in notebook.save().cells[2].metadata


def asked(model: WrittenModel) -> list[str]:
    """The prompts in the last request. What the notebook's cells are stands below each."""
    told = (message["content"] for message in model.requests()[-1] if message["role"] == "user")
    return [prompt.partition("\n\n<notebook_context>")[0] for prompt in told]
