"""What a run's calls have shown stands in its cell as outputs of its own, once the run has ended."""

import json
from typing import Any

import pytest

from agent_kernel.protocol.vocabulary import RESULT_MARK
from tests.core.record.record_examples import a_call
from tests.notebooks.kernel import TestKernel

pytestmark = [pytest.mark.kernel, pytest.mark.slow]

SHOW = """from agent_kernel.testing import ScriptedModel, call, say
import agent_kernel as ak
code = '''
from IPython.display import display, HTML, Math
print("text comes first")
display(HTML("<b>bold</b>"), metadata={"isolated": True})
display({"application/x-chart+json": {"y": [1, 2]}, "text/plain": "chart"}, raw=True)
Math("x^2")
'''
agent = ak.Agent(model=ScriptedModel([call("run_python", code=code), say("There.")]), policy="allow")
"""


def displays(outputs: list[tuple[str, dict[str, Any]]]) -> list[dict[str, Any]]:
    return [content for kind, content in outputs if kind == "display_data"]


def assert_results(shown: list[dict[str, Any]]) -> None:
    """HTML, a chart and a formula, as the call made them."""
    text, *shown = shown
    assert text["data"] == {"text/plain": "text comes first"}
    assert [set(content["data"]) - {"text/plain"} for content in shown] == [
        {"text/html"},
        {"application/x-chart+json"},
        {"text/latex"},
    ]
    assert shown[0]["metadata"]["isolated"] is True
    assert shown[1]["data"] == {"application/x-chart+json": {"y": [1, 2]}, "text/plain": "chart"}
    marks = [content["metadata"][RESULT_MARK] for content in (text, *shown)]
    assert len({mark["run"] for mark in marks}) == 1


def test_results_are_displays_of_the_cell_that_waits(kernel: TestKernel) -> None:
    kernel.run(SHOW)
    cell = kernel.run("run = agent.run('Show it.')")
    record, *results = displays(cell.outputs)
    assert "data-agent-record" in record["data"]["text/html"]
    assert_results(results)
    assert displays(kernel.run("run.wait()").outputs) == [], "they stand once"


def ended(declared: dict[str, Any], *shown: dict[str, Any]) -> dict[str, Any]:
    """A run's end as the server tells it, with a call that has shown this."""
    run = {key: declared[key] for key in ("run_id", "conversation_id", "prompt")}
    run |= {"status": "complete", "model": "m", "recorded": False, "policy": {"mode": "ask"}, "usage": {}, "budget": {}}
    outputs = [{"kind": "display", "data": data} for data in shown]
    call = json.loads(a_call(run_id=declared["run_id"]).model_dump_json()) | {"outputs": outputs}
    times = {"started_at": "2026-01-01T00:00:00Z", "ended_at": "2026-01-01T00:00:01Z"}
    return {"run": run | times, "text": "fine", "messages": [], "tool_calls": [call]}


def test_results_come_into_the_cell_that_has_ended_long_ago_and_a_copy_of_the_cards_gets_copies(
    served: TestKernel,
) -> None:
    own = served.send("%agent go")
    served.result(own)
    declared = served.request("declare", run_id=served.event("announce")["run_id"])["declaration"]
    other = served.send("%agent show")
    served.result(other)
    table = {"text/html": "<table><tr><td>1</td></tr></table>", "text/plain": "1"}
    assert served.request("finish", result=ended(declared, table))["ok"]
    served.run("None")  # what is said before its end comes before it
    outputs = served.result(own).outputs
    shown, record, result, copied = outputs
    assert [kind for kind, _ in outputs] == [
        "display_data",
        "update_display_data",
        "display_data",
        "update_display_data",
    ]
    assert record[1]["transient"] == shown[1]["transient"]
    assert "Shown with the answer: table." in record[1]["data"]["text/plain"]
    assert "<table" not in record[1]["data"]["text/html"]
    assert result[1]["data"] == table
    assert result[1]["metadata"] == {RESULT_MARK: {"run": declared["run_id"], "call": 1}}
    [(kind, elsewhere)] = served.result(other).outputs
    assert kind == "display_data"
    assert copied[1]["transient"] == elsewhere["transient"] != shown[1]["transient"]
    assert "<table" in copied[1]["data"]["text/html"]


def test_nothing_comes_into_a_cell_that_was_cleared_meanwhile(served: TestKernel) -> None:
    own = served.send("%agent go")
    served.result(own)
    declared = served.request("declare", run_id=served.event("announce")["run_id"])["declaration"]
    table = {"text/html": "<table><tr><td>1</td></tr></table>", "text/plain": "1"}
    assert served.request("finish", result=ended(declared, table) | {"cleared": True})["ok"]
    served.run("None")  # what is said before its end comes before it
    assert [kind for kind, _ in served.result(own).outputs] == ["display_data", "update_display_data"]
