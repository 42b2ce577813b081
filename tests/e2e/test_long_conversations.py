"""A conversation that is too long for its model, as a person meets it."""

from playwright.sync_api import Page, expect

from agent_kernel.testing import call, say
from agent_kernel.testing.wire.reply import failure
from tests.e2e.conftest import OpenNotebook
from tests.e2e.model import Gate, WrittenModel
from tests.e2e.records import bundles

SUMMARY = "Asked: look often. Done: sixteen looks, nothing but x. Left: the answer."
LOOKS = [call("run_python", code=f"print('x' * {900 + number})") for number in range(16)]
STATE = "run = ak.last_run(); run.status, len(run.messages), [len(c.result) > 890 for c in run.tool_calls].count(True)"


def test_a_refused_request_is_summarised_and_the_summary_can_be_read_live_after_a_reload_and_in_the_record(
    open_notebook: OpenNotebook, model: WrittenModel, page: Page
) -> None:
    answer = Gate(say("It is 42."))
    model.says(*LOOKS, failure(400, "Your input exceeds the context window of this model."), say(SUMMARY), answer)
    notebook = open_notebook(
        ["%load_ext agent_kernel\nimport agent_kernel as ak", "%%agent --policy allow\nLook often.", STATE]
    )
    notebook.run_through(1)
    card = page.locator(".ak-summary")
    expect(card).to_contain_text("Summarised")
    expect(page.get_by_text(SUMMARY)).to_have_count(0)
    card.get_by_role("button").click()
    expect(page.get_by_text(SUMMARY)).to_be_visible()
    notebook.save()
    notebook.reload()
    card.get_by_role("button").click()
    expect(page.get_by_text(SUMMARY)).to_be_visible()
    answer.open()
    expect(page.locator("[data-role=answer]")).to_contain_text("It is 42.")
    notebook.wait_for_end()
    (record,) = [data for data in bundles(notebook.save(), 1) if "data-agent-record" in data.get("text/html", "")]
    assert f"messages</summary>\n<p>{SUMMARY}</p>\n</details>" in record["text/html"]
    notebook.run(2)
    assert notebook.text(2) == "('complete', 34, 16)"
    *_, refused, summarised, last = model.requests()
    assert [message["role"] for message in summarised] == ["system", "user"]
    assert len(last) < len(refused)
    assert last[1]["content"].startswith("Look often.")
    assert SUMMARY in last[1]["content"]
