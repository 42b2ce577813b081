"""What a run's calls have shown stands in its cell as outputs of its own, once the run has ended."""

from typing import Any

import pytest

from agent_kernel.protocol.vocabulary import RESULT_MARK
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


def test_results_are_displays_of_the_cell_that_waits(kernel: TestKernel) -> None:
    kernel.run(SHOW)
    record, *results = displays(kernel.run("run = agent.run('Show it.')").outputs)
    assert "data-agent-record" in record["data"]["text/html"]
    text, html, chart, formula = (one["data"] for one in results)
    assert text == {"text/plain": "text comes first"}
    assert chart == {"application/x-chart+json": {"y": [1, 2]}, "text/plain": "chart"}
    assert (html["text/html"], set(formula)) == ("<b>bold</b>", {"text/latex", "text/plain"})
    assert results[1]["metadata"]["isolated"] is True
    assert len({one["metadata"][RESULT_MARK]["run"] for one in results}) == 1
    assert displays(kernel.run("run.wait()").outputs) == [], "they stand once"


TABLE = {"text/html": "<table><tr><td>1</td></tr></table>", "text/plain": "1"}


def test_results_come_into_the_cell_that_has_ended_long_ago_and_a_copy_of_the_cards_gets_copies(
    served: TestKernel,
) -> None:
    own = served.send("%agent go")
    served.result(own)
    declared = served.declared()
    other = served.send("%agent show")
    served.result(other)
    served.finish(declared, TABLE)
    served.run("None")  # what is said before its end comes before it
    outputs = served.result(own).outputs
    shown, record, result, copied = outputs
    assert [kind for kind, _ in outputs] == ["display_data", "update_display_data"] * 2
    assert record[1]["transient"] == shown[1]["transient"]
    assert "Shown with the answer: table." in record[1]["data"]["text/plain"]
    assert "<table" not in record[1]["data"]["text/html"]
    assert result[1]["data"] == TABLE
    assert result[1]["metadata"] == {RESULT_MARK: {"run": declared["run_id"], "call": 1}}
    [(kind, elsewhere)] = served.result(other).outputs
    assert kind == "display_data"
    assert copied[1]["transient"] == elsewhere["transient"] != shown[1]["transient"]
    assert "<table" in copied[1]["data"]["text/html"]


def test_nothing_comes_into_a_cell_that_was_cleared_meanwhile(served: TestKernel) -> None:
    own = served.send("%agent go")
    served.result(own)
    served.finish(served.declared(), TABLE, cleared=True)
    served.run("None")  # what is said before its end comes before it
    assert [kind for kind, _ in served.result(own).outputs] == ["display_data", "update_display_data"]
