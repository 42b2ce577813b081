"""`%agent stats`: what was spent, with a server and without."""

from datetime import UTC, datetime
from typing import Any

import pytest

from agent_kernel.notebook.stats import stats_bundle
from agent_kernel.protocol.lists import ConversationUsage, DayUsage, ModelUsage, NotebookUsage, UsageReport, UsageTotals
from agent_kernel.protocol.measures import CallTotals, DayMetrics, MetricsReport, ToolMetrics
from agent_kernel.record.texts import OUTPUT_LOOK
from tests.notebooks.kernel import TestKernel

SPENT: dict[str, Any] = {
    "turns": 3,
    "input_tokens": 4_120,
    "cached_tokens": 3_000,
    "output_tokens": 512,
    "cost": 0.0121,
}


def today() -> str:
    """Asked for again by each test: a run of the tests may go past midnight."""
    return f"{datetime.now(UTC):%Y-%m-%d}"


def report(**fields: Any) -> UsageReport:
    return UsageReport(
        days=30,
        since="2026-10-23",
        totals=UsageTotals(**SPENT),
        by_model=[ModelUsage(**SPENT, model="gpt-5", host="api.openai.com")],
        by_day=[DayUsage(**SPENT, day=today())],
        by_notebook=[NotebookUsage(**SPENT, notebook="work/a.ipynb")],
        by_conversation=[ConversationUsage(**SPENT, conversation_id="conv_1", notebook="work/a.ipynb")],
    ).model_copy(update=fields)


NO_CALLS = MetricsReport(days=30, since="2026-10-23")
CALLS: dict[str, Any] = {
    "calls": 1_234,
    "outcomes": {"success": 1_000, "denied": 200, "error": 30, "invalid": 4},
    "errors": {"failed": 30, "invalid": 4},
    "asked": 400,
    "wait_seconds": 90.0,
    "ran": 1_030,
    "call_seconds": 12.34,
}


def test_the_table_says_what_was_spent_here_today_and_by_what() -> None:
    plain = stats_bundle(report(), NO_CALLS, "conv_1")["text/plain"]
    lines = [" ".join(line.split()) for line in plain.split("\n")]
    assert lines[0] == "turns input cached output cost"
    figures = "3 4,120 3,000 512 $0.012"
    for name in ("This conversation", "This notebook, work/a.ipynb", f"Today, {today()}", "30 days, since 2026-10-23"):
        assert f"{name} {figures}" in lines
    assert f"gpt-5, api.openai.com {figures}" in lines
    assert lines[-1].startswith("Days are in UTC.")
    assert len({len(line) for line in plain.split("\n")[:-1] if line.endswith("$0.012")}) == 1, "columns stand in line"


def test_a_cost_that_is_not_known_is_not_made_up() -> None:
    models = [
        ModelUsage(**SPENT | {"cost_is_partial": True}, model="some", host=""),
        ModelUsage(**SPENT | {"cost": None, "cost_is_partial": True}, model="none", host=""),
        ModelUsage(**SPENT | {"cost": None}, model="local", host=""),
    ]
    lines = [
        " ".join(line.split()) for line in stats_bundle(report(by_model=models), NO_CALLS, "")["text/plain"].split("\n")
    ]
    for line in ("some 3 4,120 3,000 512 ≥ $0.012", "none 3 4,120 3,000 512 not known", "local 3 4,120 3,000 512"):
        assert line in lines


def test_names_are_shown_and_not_obeyed_and_long_lists_are_cut() -> None:
    evil = "<script>x</script>\u202e.ipynb"
    notebooks = [NotebookUsage(**SPENT, notebook=evil), *(NotebookUsage(**SPENT, notebook=f"{n}") for n in range(30))]
    told = stats_bundle(report(by_notebook=notebooks), NO_CALLS, "")
    assert "<script" not in told["text/html"]
    assert "\u202e" not in "".join(told.values())
    assert "and 21 more" in told["text/plain"]
    assert (
        "\n"
        not in stats_bundle(report(by_model=[ModelUsage(**SPENT, model="a\nb", host="")]), NO_CALLS, "")["text/html"]
    )


def test_where_nothing_was_asked_it_says_so() -> None:
    told = stats_bundle(report(totals=UsageTotals()), NO_CALLS, "conv_1")
    assert told["text/plain"].startswith("No model has been asked since 2026-10-23 (UTC).")


def test_calls_have_a_plot_and_a_table_that_look_as_a_record_does() -> None:
    metrics = NO_CALLS.model_copy(
        update={
            "totals": CallTotals(**CALLS),
            "by_tool": [ToolMetrics(**CALLS, tool="run_python"), ToolMetrics(calls=1, tool="<b>mine")],
            "by_day": [
                DayMetrics(calls=1_233, day="2026-11-21"),
                DayMetrics(day="2026-11-20"),
                DayMetrics(calls=1, day="2026-11-02"),
            ],
        }
    )
    told = stats_bundle(report(), metrics, "conv_1")
    plot = f"2026-11-21  {'▇' * 30} 1,233\n2026-11-02  ▇ 1"
    assert f"\n\n{plot}\n\n" in told["text/plain"]
    assert f"<pre{OUTPUT_LOOK}>{plot}</pre>" in told["text/html"]
    lines = [" ".join(line.split()) for line in told["text/plain"].split("\n")]
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
    refused = kernel.run("%agent stats --days 0")
    assert refused.reply["evalue"] == "--days wants a number from 1 to 3660."
