"""A run that reaches its budget, as a person meets it."""

from playwright.sync_api import Page, expect

from agent_kernel.testing import call, say
from tests.e2e.conftest import OpenNotebook
from tests.e2e.model import WrittenModel

START = """%load_ext agent_kernel
import agent_kernel as ak
agent = ak.Agent(policy="allow", budget=ak.Budget(tool_calls=1))"""
RUN = 'run = agent.start("Look twice.")'


def test_a_run_at_its_budget_waits_over_a_reload_and_goes_on_once_a_person_adds_to_it(
    open_notebook: OpenNotebook, model: WrittenModel, page: Page
) -> None:
    model.says(call("run_python", code="6 * 7"), call("run_python", code="6 * 9"), say("It is 42."))
    notebook = open_notebook([START, RUN, "run.status, run.error"])
    notebook.run_through(1)
    card = page.get_by_role("group", name="Budget reached")
    expect(card).to_contain_text("1 of 1")
    expect(page.get_by_role("meter", name="Tool calls")).to_have_attribute("aria-valuetext", "1 of 1")
    notebook.run(2)  # the kernel is free meanwhile
    assert notebook.text(2) == "('running', None)"
    notebook.save()
    notebook.reload()
    expect(card).to_contain_text("1 of 1")
    field = card.get_by_role("textbox", name="Add tool calls")
    field.fill("5")
    field.press("Enter")
    expect(card).to_be_hidden()
    expect(page.locator("[data-role=answer]")).to_contain_text("It is 42.")
    notebook.run_until(2, "('complete', None)")
