"""A person decides: approve, deny, edit, two calls at once, stop."""

from playwright.sync_api import expect

from agent_kernel.testing import call, calls, say
from tests.e2e.conftest import OpenNotebook
from tests.e2e.model import Gate, WrittenModel

LOAD = "%load_ext agent_kernel"


def test_approve_runs_the_call_and_the_answer_follows(open_notebook: OpenNotebook, model: WrittenModel) -> None:
    answer = Gate(say("Six times seven is **42**."))
    model.says(call("run_python", code="product = 6 * 7\nprint('the product is', product)"), answer)
    notebook = open_notebook([LOAD, "%%agent\nWhat is six times seven?", "'product' in globals()"])
    notebook.run_through(1)
    notebook.wait_for_state("awaiting_approval")
    expect(notebook.card()).to_contain_text("product = 6 * 7")

    notebook.run(2)
    assert notebook.text(2) == "False", "the call ran before it was approved"

    notebook.press("Approve")
    notebook.wait_for_state("success")
    expect(notebook.card()).to_contain_text("the product is 42")
    notebook.run(2)
    assert notebook.text(2) == "True"

    answer.open()
    expect(notebook.page.get_by_text("Six times seven is 42.")).to_be_visible()
    expect(notebook.record()).to_be_visible()
    assert model.tool_results() == ["the product is 42"]


def test_edit_then_approve_runs_the_edited_code_and_the_model_is_told(
    open_notebook: OpenNotebook, model: WrittenModel
) -> None:
    answer = Gate(say("Done, with your change."))
    model.says(call("run_python", code="limit = 10\nprint('limit', limit)"), answer)
    notebook = open_notebook([LOAD, "%%agent\nSet the limit.", "limit"])
    notebook.run_through(1)
    notebook.wait_for_state("awaiting_approval")
    notebook.press("Edit")
    # A plain field stands there until the editor has come.
    expect(notebook.card().locator(".cm-content")).to_be_focused()
    notebook.page.keyboard.press("ControlOrMeta+a")
    notebook.page.keyboard.insert_text("limit = 25\nprint('limit', limit)")
    notebook.press("Approve")
    notebook.wait_for_state("success")
    expect(notebook.card()).to_contain_text("limit 25")

    answer.open()
    expect(notebook.record()).to_contain_text("Done, with your change.")
    notebook.run(2)
    assert notebook.text(2) == "25"
    (heard,) = model.tool_results()
    assert "changed the arguments" in heard
    assert "limit = 25" in heard


def test_two_parallel_calls_are_answered_differently(open_notebook: OpenNotebook, model: WrittenModel) -> None:
    answer = Gate(say("The first ran, the second did not."))
    model.says(calls(call("run_python", code="first = 1"), call("run_python", code="second = 2")), answer)
    notebook = open_notebook([LOAD, "%%agent\nDo both.", "'first' in globals(), 'second' in globals()"])
    notebook.run_through(1)
    notebook.wait_for_state("awaiting_approval", card=0)
    notebook.wait_for_state("awaiting_approval", card=1)

    notebook.press("Approve", card=0)
    notebook.wait_for_state("success", card=0)
    notebook.wait_for_state("awaiting_approval", card=1)
    assert len(model.requests()) == 1, "the model was asked again before all calls had an outcome"
    notebook.press_until_reason("one is enough", card=1)
    notebook.wait_for_state("denied", card=1)

    answer.open()
    expect(notebook.record()).to_contain_text("The first ran, the second did not.")
    notebook.run(2)
    assert notebook.text(2) == "(True, False)"
    first, second = model.tool_results()
    assert "Denied" not in first
    assert "one is enough" in second


def test_stop_ends_a_call_that_sleeps_for_ten_minutes(open_notebook: OpenNotebook, model: WrittenModel) -> None:
    model.says(call("run_python", code="import time\nprint('asleep', flush=True)\ntime.sleep(600)"))
    notebook = open_notebook([LOAD, "%%agent\nWait ten minutes.", "'still here'"])
    notebook.run_through(1)
    notebook.wait_for_state("awaiting_approval")
    notebook.press("Approve")
    notebook.wait_for_state("executing")
    expect(notebook.card()).to_contain_text("asleep")
    notebook.page.get_by_role("button", name="Stop", exact=True).click()
    expect(notebook.record()).to_contain_text("ancelled")
    notebook.run(2)
    assert notebook.text(2) == "'still here'"
