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
NO_CALLS = MetricsReport(days=30, since="2026-10-23")
CALLS: dict[str, Any] = {"calls": 1_234, "outcomes": {"success": 1_000, "denied": 200, "error": 30, "invalid": 4}}
CALLS |= {"errors": {"failed": 30, "invalid": 4}, "asked": 400, "wait_seconds": 90.0, "ran": 1_030}
CALLS |= {"call_seconds": 12.34}


def model(name: str, host: str = "", **changes: Any) -> ModelUsage:
    return ModelUsage(**SPENT | changes, model=name, host=host)


def stats(metrics: MetricsReport = NO_CALLS, **fields: Any) -> tuple[dict[str, str], list[str]]:
    """What is shown, and its lines with one space between columns."""
    values: dict[str, Any] = {
        "totals": UsageTotals(**SPENT),
        "by_model": [model("gpt-5", "api.openai.com")],
        "by_day": [DayUsage(**SPENT, day=f"{datetime.now(UTC):%Y-%m-%d}")],
        "by_notebook": [NotebookUsage(**SPENT, notebook="work/a.ipynb")],
        "by_conversation": [ConversationUsage(**SPENT, conversation_id="conv_1", notebook="work/a.ipynb")],
    }
    told = stats_bundle(UsageReport(days=30, since="2026-10-23", **values | fields), metrics, "conv_1")
    return told, [" ".join(line.split()) for line in told["text/plain"].split("\n")]


def test_the_table_says_what_was_spent_here_today_and_by_what_and_makes_up_no_cost() -> None:
    models = [
        model("gpt-5", "api.openai.com"),
        model("some", cost_is_partial=True),
        model("none", cost=None, cost_is_partial=True),
        model("local", cost=None),
    ]
    told, lines = stats(by_model=models)
    assert lines[0] == "turns input cached output cost"
    assert lines[-1].startswith("Days are in UTC.")
    for line in (
        f"This conversation {FIGURES}",
        f"This notebook, work/a.ipynb {FIGURES}",
        f"Today, {datetime.now(UTC):%Y-%m-%d} {FIGURES}",
        f"30 days, since 2026-10-23 {FIGURES}",
        f"gpt-5, api.openai.com {FIGURES}",
        "some 3 4,120 3,000 512 ≥ $0.012",
        "none 3 4,120 3,000 512 not known",
        "local 3 4,120 3,000 512",
    ):
        assert line in lines
    assert len({len(line) for line in told["text/plain"].split("\n")[:-1] if line.endswith("$0.012")}) == 1, "in line"


def test_names_are_shown_and_not_obeyed_and_long_lists_are_cut() -> None:
    names = ["<script>x</script>\u202e.ipynb", *map(str, range(30))]
    told, _ = stats(by_notebook=[NotebookUsage(**SPENT, notebook=name) for name in names], by_model=[model("a\nb")])
    assert "<script" not in told["text/html"]
    assert "\n" not in told["text/html"]
    assert "\u202e" not in "".join(told.values())
    assert "and 21 more" in told["text/plain"]


def test_where_nothing_was_asked_it_says_so() -> None:
    told, _ = stats(totals=UsageTotals())
    assert told["text/plain"].startswith("No model has been asked since 2026-10-23 (UTC).")


def test_calls_have_a_plot_and_a_table_that_look_as_a_record_does() -> None:
    days = {"2026-11-21": 1_233, "2026-11-20": 0, "2026-11-02": 1}
    changes = {
        "totals": CallTotals(**CALLS),
        "by_tool": [ToolMetrics(**CALLS, tool="run_python"), ToolMetrics(calls=1, tool="<b>mine")],
        "by_day": [DayMetrics(calls=calls, day=day) for day, calls in days.items()],
    }
    told, lines = stats(NO_CALLS.model_copy(update=changes))
    plot = f"2026-11-21  {'▇' * 30} 1,233\n2026-11-02  ▇ 1"
    assert f"\n\n{plot}\n\n" in told["text/plain"]
    assert f"<pre{OUTPUT_LOOK}>{plot}</pre>" in told["text/html"]
    for line in (
        "calls success errors asked waited ran for",
        "All tools 1,234 1,000 34 400 1 min 30 s 12 s",
        "run_python 1,234 1,000 34 400 1 min 30 s 12 s",
        "<b>mine 1 0 0 0",
    ):
        assert line in lines
    assert "<td>&lt;b&gt;mine</td><td>1</td>" in told["text/html"]


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
    cell = kernel.run("%agent stats --days 7")
    [plain], [html] = cell.shown(), cell.shown("text/html")
    assert "This conversation 1 1,000 0 100 $0.002" in " ".join(plain.split())
    assert "7 days, since" in plain
    assert html.startswith("<table")
    assert kernel.run("%agent stats --days 0").reply["evalue"] == "--days wants a number from 1 to 3660."
