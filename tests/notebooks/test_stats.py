"""`%agent stats`: what was spent, with a server and without."""

from datetime import UTC, datetime
from typing import Any

import pytest

from agent_kernel.notebook.stats import stats_bundle
from agent_kernel.protocol.lists import ConversationUsage, DayUsage, ModelUsage, NotebookUsage, UsageReport, UsageTotals
from agent_kernel.protocol.metrics import CallTotals, DayMetrics, MetricsReport, ToolMetrics
from agent_kernel.record.texts import OUTPUT_LOOK
from tests.notebooks.kernel import TestKernel

SPENT: dict[str, Any] = {"turns": 3, "input_tokens": 4_120, "cached_tokens": 3_000, "output_tokens": 512}
SPENT |= {"cost": 0.0121}
FIGURES = "3 4,120 3,000 512 $0.012"
CALLS: dict[str, Any] = {"calls": 1_234, "outcomes": {"success": 1_000, "denied": 200, "error": 34}, "asked": 400}
CALLS |= {"errors": {"failed": 34}, "wait_seconds": 90.0, "ran": 1_030, "call_seconds": 12.34}


def test_the_tables_say_what_was_spent_and_how_calls_ended_and_make_up_no_cost() -> None:
    today = f"{datetime.now(UTC):%Y-%m-%d}"
    usage = UsageReport(
        days=30,
        since="2026-10-23",
        totals=UsageTotals(**SPENT),
        by_model=[
            ModelUsage(**SPENT | {"cost_is_partial": True}, model="some", host=""),
            ModelUsage(**SPENT | {"cost": None, "cost_is_partial": True}, model="none", host=""),
            ModelUsage(**SPENT | {"cost": None}, model="local", host=""),
        ],
        by_day=[DayUsage(**SPENT, day=today)],
        by_notebook=[NotebookUsage(**SPENT, notebook=name) for name in ("work/a.ipynb", "<b>\u202e", *"012345678")],
        by_conversation=[ConversationUsage(**SPENT, conversation_id="conv_1", notebook="work/a.ipynb")],
    )
    metrics = MetricsReport(
        days=30,
        since="2026-10-23",
        totals=CallTotals(**CALLS),
        by_tool=[ToolMetrics(**CALLS, tool="run_python")],
        by_day=[DayMetrics(calls=1_233, day="2026-11-21"), DayMetrics(calls=1, day="2026-11-02")],
    )
    told = stats_bundle(usage, metrics, "conv_1")
    lines = [" ".join(line.split()) for line in told["text/plain"].split("\n")]
    for line in (
        f"This conversation {FIGURES}",
        f"This notebook, work/a.ipynb {FIGURES}",
        f"Today, {today} {FIGURES}",
        f"30 days, since 2026-10-23 {FIGURES}",
        "some 3 4,120 3,000 512 ≥ $0.012",
        "none 3 4,120 3,000 512 not known",
        "local 3 4,120 3,000 512",
        "and 1 more: GET agent-kernel/api/usage",
        f"2026-11-21 {'▇' * 30} 1,233",
        "2026-11-02 ▇ 1",
        "run_python 1,234 1,000 34 400 1 min 30 s 12 s",
    ):
        assert line in lines
    plot = f"2026-11-21  {'▇' * 30} 1,233\n2026-11-02  ▇ 1"
    assert f"<pre{OUTPUT_LOOK}>{plot}</pre>" in told["text/html"], "in the record's style"
    assert "<td>local</td><td>3</td><td>4,120</td>" in told["text/html"]
    assert "<td>&lt;b&gt;" in told["text/html"]
    assert "\u202e" not in "".join(told.values())


PRICED = """from agent_kernel.testing import ScriptedModel, say
from agent_kernel.models.base import ModelFacts
import agent_kernel as ak
facts = ModelFacts("gpt-5", "https://api.openai.com/v1")
agent = ak.Agent(model=ScriptedModel([say("Hi.", usage=(1000, 100))], name="gpt-5", facts=facts))
run = agent.run("Hello")"""


@pytest.mark.kernel
@pytest.mark.slow
def test_without_a_server_it_tells_of_this_kernel(kernel: TestKernel) -> None:
    kernel.run("%load_ext agent_kernel")
    [nothing] = kernel.run("%agent stats").shown()
    assert nothing.startswith("No model has been asked")
    kernel.run(PRICED)
    assert kernel.value("run.usage.cost, run.usage.cost_is_partial") == "(0.00225, False)"
    assert kernel.value("run.metrics.steps, run.metrics.tokens") == "(1, {'input': 1000, 'output': 100})"
    cell = kernel.run("%agent stats")
    [plain], [html] = cell.shown(), cell.shown("text/html")
    assert "This conversation 1 1,000 0 100 $0.002" in " ".join(plain.split())
    assert html.startswith("<table")
