"""What a person changes about a run while it goes on."""

from playwright.sync_api import expect

from agent_kernel.testing import call, calls, say
from tests.e2e.conftest import OpenNotebook
from tests.e2e.model import Gate, WrittenModel

LOAD = "%load_ext agent_kernel"


def test_the_policy_is_switched_mid_run_and_the_next_call_is_not_asked_about(
    open_notebook: OpenNotebook, model: WrittenModel
) -> None:
    both = calls(*(call("run_python", code=f"a = {one}", call_id=f"c{one}") for one in (1, 2)))
    answer = Gate(say("All done."))
    model.says(both, call("run_python", code="b = 3"), answer)
    notebook = open_notebook([LOAD, "%%agent\nCount.", "print(a + b)"])
    notebook.run_through(1)
    notebook.wait_for_state("awaiting_approval", 1)
    page = notebook.page
    page.get_by_role("button", name="Policy: Asks before acting", exact=True).click()
    panel = page.get_by_role("group", name="Policy in force")
    panel.get_by_text("Allow", exact=True).click()
    expect(panel).to_contain_text("2 calls still wait for you.")
    panel.get_by_role("button", name="Switch to Allow").click()
    expect(page.get_by_role("button", name="Policy: Acts without asking", exact=True)).to_be_visible()
    notebook.wait_for_state("awaiting_approval", 0)  # those on screen are the person's still
    notebook.wait_for_state("awaiting_approval", 1)
    notebook.press("Approve", 0)
    notebook.press("Approve", 1)
    notebook.wait_for_state("success", 2)
    answer.open()
    expect(notebook.record()).to_contain_text("All done.")
    expect(notebook.record()).to_contain_text("The policy was switched")


def test_a_prompt_has_the_kernels_defaults_and_says_what_it_continues_from(
    open_notebook: OpenNotebook, model: WrittenModel
) -> None:
    model.says(say("One."), call("run_python", code="1 + 1"), say("Two."))
    notebook = open_notebook([LOAD, "%agent config policy=plan", "%%agent\nFirst.", "%%agent\nSecond."])
    notebook.run_through(2)
    expect(notebook.record()).to_contain_text("One.")
    notebook.run(3)
    number = notebook.page.locator(".jp-InputPrompt").nth(2).inner_text().strip(" :")
    second = notebook.record().nth(1)
    expect(second).to_contain_text("Two.")
    expect(second).to_contain_text(f"plan only: reads, never acts, continues from {number}", ignore_case=True)
    assert [message["role"] for message in model.requests()[-1]] == [
        *("system", "user", "assistant", "user", "assistant", "tool"),
    ]
