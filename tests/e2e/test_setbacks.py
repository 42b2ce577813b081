"""Runs that can't go on by themselves, because of a service or a budget: a person sees why, and goes on."""

import re

from playwright.sync_api import Page, expect

from agent_kernel.testing import call, say
from agent_kernel.testing.wire.reply import failure, rate_limited
from tests.e2e.conftest import OpenNotebook
from tests.e2e.model import WrittenModel

LOAD = """%load_ext agent_kernel
import agent_kernel as ak
agent = ak.Agent(policy="allow", budget=ak.Budget(tool_calls=1))"""
NEXT_TRY = re.compile(r"Rate limited, next try in (1\smin\s)?\d+\ss \(try 2 of 4\)\. Rate limit reached\.")


def test_a_person_tries_now_or_again_and_adds_to_a_budget_also_after_a_reload(
    open_notebook: OpenNotebook, model: WrittenModel, page: Page
) -> None:
    limited, look = rate_limited(retry_after="100"), call("run_python", code="6 * 7")
    model.says(limited, look, failure(400, "The model is not well."), say("It is 42."))
    prompt = "%%agent --policy allow\nWhat is 6 * 7?"
    run = 'run = agent.start("Look twice.")'
    notebook = open_notebook([LOAD, prompt, "%agent status", "ak.last_run().status", run, "run.status, run.error"])
    notebook.run_through(1)
    bar = page.get_by_role("group", name="Rate limited")
    expect(bar).to_contain_text(NEXT_TRY)
    bar.get_by_role("button", name="Try now").click()
    expect(page.get_by_role("alert")).to_contain_text("The model did not answer.")
    notebook.run_until(3, "'error'")
    page.get_by_role("button", name="Try again").click()
    expect(notebook.record()).to_contain_text("It is 42.")
    notebook.run_until(3, "'complete'")
    assert [message["role"] for message in model.requests()[-1]] == ["system", "user", "assistant", "tool"]

    model.says(look, look, say("It is 42 still."))
    notebook.run(4)
    card = page.get_by_role("group", name="Budget reached")
    expect(card).to_contain_text("1 of 1")
    expect(page.get_by_role("meter", name="Tool calls")).to_have_attribute("aria-valuetext", "1 of 1")
    notebook.run(5)  # the kernel is free meanwhile
    assert notebook.text(5) == "('running', None)"
    notebook.save()
    notebook.reload()
    expect(card).to_contain_text("1 of 1")
    field = card.get_by_role("spinbutton", name="Add tool calls")
    field.fill("5")
    field.press("Enter")
    expect(card).to_be_hidden()
    expect(notebook.record().last).to_contain_text("It is 42 still.")
    notebook.run_until(5, "('complete', None)")
