"""What a person changes about a run while it goes on."""

import re
from collections.abc import Iterator
from typing import cast

import pytest
from playwright.sync_api import Page, expect

from agent_kernel.testing import call, calls, say
from tests.e2e.conftest import OpenNotebook
from tests.e2e.lab import App, LabServer, NotebookPage
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


def test_new_conversation_runs_the_prompt_again_without_what_was_said_and_later_prompts_continue_there(
    open_notebook: OpenNotebook, model: WrittenModel
) -> None:
    asks = call("run_python", code="print('never')")
    model.says(say("One."), asks, call("run_python", code="print('anew')"), say("Two."), say("Three."))
    notebook = open_notebook([LOAD, "%%agent\nFirst.", "%%agent\nSecond.", "%%agent\nThird."])
    notebook.run_through(1)
    expect(notebook.record()).to_contain_text("One.")
    notebook.run(2)
    expect(notebook.card()).to_contain_text("print('never')")
    notebook.wait_for_state("awaiting_approval")
    header = notebook.page.get_by_role("group", name="Agent run")
    expect(header).to_contain_text(f"continues from [{notebook.prompt_number(1)}]")
    header.get_by_role("button", name="New conversation", exact=True).click()
    expect(notebook.card()).to_contain_text("print('anew')")
    notebook.wait_for_state("awaiting_approval")
    expect(notebook.cards()).to_have_count(1)
    expect(header.get_by_role("button", name="New conversation", exact=True)).to_have_count(0)
    notebook.press("Approve")
    expect(notebook.record().nth(1)).to_contain_text("Two.")
    assert asked(model) == ["Second."]
    assert model.tool_results() == ["anew"]
    notebook.run(3)
    expect(notebook.record().nth(2)).to_contain_text("Three.")
    expect(notebook.record().nth(2)).to_contain_text(f"continues from [{notebook.prompt_number(2)}]")
    assert asked(model) == ["Second.", "Third."]
    assert "agentKernelNewConversation" not in notebook.save().cells[2].metadata


def test_new_conversation_interrupts_a_call_that_runs(open_notebook: OpenNotebook, model: WrittenModel) -> None:
    sleeps = call("run_python", code="import time\nprint('asleep', flush=True)\ntime.sleep(600)\nwoke = True")
    model.says(say("One."), sleeps, say("Two."))
    notebook = open_notebook([LOAD, "%%agent\nFirst.", "%%agent --policy allow\nSecond.", "'woke' in globals()"])
    notebook.run_through(1)
    expect(notebook.record()).to_contain_text("One.")
    notebook.run(2)
    expect(notebook.card()).to_contain_text("asleep")
    notebook.page.get_by_role("button", name="New conversation", exact=True).click()
    expect(notebook.record().nth(1)).to_contain_text("Two.")
    assert asked(model) == ["Second."]
    notebook.run(3)
    assert notebook.text(3) == "False"


def test_a_cell_that_is_run_again_takes_the_place_of_what_it_said_for_the_model_too(
    open_notebook: OpenNotebook, model: WrittenModel
) -> None:
    model.says(say("One."), say("Two."), say("Another one."))
    notebook = open_notebook([LOAD, "%%agent\nFirst.", "%%agent\nSecond."])
    notebook.run_through(1)
    expect(notebook.record()).to_contain_text("One.")
    notebook.run(2)
    expect(notebook.record().nth(1)).to_contain_text("Two.")
    notebook.run(1)
    expect(notebook.record().nth(0)).to_contain_text("Another one.")
    assert asked(model) == ["Second.", "First."]
    assert "One." not in [message["content"] for message in model.requests()[-1]]


@pytest.fixture(scope="module", params=["jupyterlab", "notebook"])
def capped(
    request: pytest.FixtureRequest, shared_model: WrittenModel, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LabServer]:
    """A site where nobody may switch approvals off."""
    cap = ["--AgentKernelServer.policy_cap=ask"]
    home = tmp_path_factory.mktemp("capped")
    with LabServer(home, shared_model.server.environment(), app=cast("App", request.param), arguments=cap) as server:
        yield server


def test_the_badge_offers_no_more_than_the_site_allows(capped: LabServer, model: WrittenModel, page: Page) -> None:
    model.says(call("run_python", code="x = 1"), say("Only planned."))
    notebook = NotebookPage(capped, page, capped.write_notebook("capped.ipynb", [LOAD, "%%agent\nPlan it."]))
    notebook.run_through(1)
    notebook.wait_for_state("awaiting_approval")
    page.get_by_role("button", name="Policy: Asks before acting", exact=True).click()
    panel = page.get_by_role("group", name="Policy in force")
    expect(panel).to_contain_text("This site allows Ask at most.")
    expect(panel.get_by_role("radio")).to_have_count(3)
    panel.get_by_text("Plan", exact=True).click()
    expect(panel).to_contain_text("The call that waits is denied, unless it only reads.")
    panel.get_by_role("button", name="Switch to Plan", exact=True).click()
    expect(notebook.record()).to_contain_text("Only planned.")
    (heard,) = model.tool_results()
    assert heard.startswith("Denied by policy")
    assert "Nothing ran." in heard


def test_new_conversation_is_there_in_notebook_7_too(capped: LabServer, model: WrittenModel, page: Page) -> None:
    model.says(say("One."), call("run_python", code="1"), say("Two."))
    path = capped.write_notebook("anew.ipynb", [LOAD, "%%agent\nFirst.", "%%agent\nSecond."])
    notebook = NotebookPage(capped, page, path)
    notebook.run_through(1)
    expect(notebook.record()).to_contain_text("One.")
    notebook.run(2)
    notebook.wait_for_state("awaiting_approval")
    page.get_by_role("button", name="New conversation", exact=True).click()
    expect(notebook.record().nth(1)).to_contain_text("Two.")
    assert asked(model) == ["Second."]


def asked(model: WrittenModel) -> list[str]:
    """The prompts in the last request. What the notebook's cells are stands below each."""
    told = (message["content"] for message in model.requests()[-1] if message["role"] == "user")
    return [prompt.partition("\n\n<notebook_context>")[0] for prompt in told]


def test_the_badge_lists_every_rule_with_who_made_it_and_edit_writes_files_here_unasked(
    open_notebook: OpenNotebook, model: WrittenModel
) -> None:
    answer = Gate(say("Written."))
    turns = [call("run_python", code="1"), call("write_file", path="notes.md", content="x\n")]
    model.says(*turns, call("run_python", code="2"), answer)
    policy = "ak.Policy(rules=['allow read_file', 'deny run_shell where command matches \"curl *\"'])"
    code = f"import agent_kernel as ak\nrun = ak.Agent(policy={policy}).start('Write it.')"
    notebook = open_notebook([LOAD, code])
    limits = notebook.path.parent / ".agent-kernel.toml"
    limits.write_text('rules = ["ask run_shell", "allow *"]\n[budget]\ntool_calls = 9\n')
    try:
        notebook.run_through(1)
        notebook.wait_for_state("awaiting_approval")
        page = notebook.page
        said = "Policy: Asks before acting, 1 always-allow rule, 2 rules that deny or ask"
        page.get_by_role("button", name=said, exact=True).click()
        expect(page.get_by_text("limited by .agent-kernel.toml: 1 rule, 9 tool calls", exact=True)).to_be_visible()
        panel = page.get_by_role("group", name="Policy in force")
        expect(panel.get_by_role("listitem")).to_have_text(
            [
                "ask run_shell from .agent-kernel.toml",
                "allow read_file from this notebook\u2019s code",
                'deny run_shell where command matches "curl *" from this notebook\u2019s code',
            ]
        )
        expect(panel).to_contain_text("the rule 'allow *' is not used, because a file can only tighten.")
        panel.get_by_text("Edit", exact=True).click()
        panel.get_by_role("button", name="Switch to Edit").click()
        notebook.press("Approve", 0)
        notebook.wait_for_state("success", 1)  # the file, which nobody was asked about
        notebook.wait_for_state("awaiting_approval", 2)  # code
        badge = page.get_by_role("button", name=re.compile("^Policy: Edits files here, asks for the rest"))
        expect(badge).to_be_visible()
        notebook.press("Approve", 2)
        answer.open()
        expect(notebook.record()).to_contain_text("limited by .agent-kernel.toml: 1 rule, 9 tool calls")
        assert (notebook.path.parent / "notes.md").read_text() == "x\n"
    finally:
        limits.unlink()
