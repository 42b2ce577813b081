"""What calls, turns and runs took, counted exactly: for `run.metrics`, reports and listeners."""

from collections.abc import AsyncIterator, Callable
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from agent_kernel.approvals.scripted import approve, deny
from agent_kernel.log import measures
from agent_kernel.log.measures import CallMeasure, RunMeasure, Turn, read_metrics
from agent_kernel.models.base import ModelItem, ModelRequest, ModelTurn, TextDelta, TokenUsage
from agent_kernel.protocol import events
from agent_kernel.protocol.calls import ApprovedCall, Outcome
from agent_kernel.protocol.commands import Decision
from agent_kernel.protocol.events import ToolCompleteEvent
from agent_kernel.protocol.metrics import RunMetrics
from agent_kernel.protocol.run_results import RunResult
from agent_kernel.runtime.state import spending
from agent_kernel.runtime.tool_calls import execution
from agent_kernel.testing import call, calls, say
from tests.core.runtime.runtime_fixtures import (
    ASK_USER,
    LOOK,
    NO,
    RUN_PYTHON,
    YES,
    FunctionExecutor,
    Stage,
    Stages,
)
from tests.core.runtime.tool_calls.test_cache import READ
from tests.core.runtime.tool_calls.test_scripts import recorded

TOOLS = (RUN_PYTHON, LOOK, READ, ASK_USER)
NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)


class Clock:
    """The time of the log, of calls and of runs, which passes only when the test says so."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.at = NOON
        self.fromisoformat = datetime.fromisoformat
        for module in (events, measures):
            monkeypatch.setattr(module, "datetime", self)
        for module in (execution, spending):
            monkeypatch.setattr(module, "time", self)

    def now(self, zone: Any) -> datetime:
        return self.at

    def monotonic(self) -> float:
        return self.at.timestamp()

    def pass_by(self, seconds: float) -> None:
        self.at += timedelta(seconds=seconds)

    def turn(self, turn: ModelTurn, seconds: float, usage: TokenUsage) -> Callable[[ModelRequest], Any]:
        """A turn whose first piece comes after so many seconds, and the rest a second later."""

        async def items(request: ModelRequest) -> AsyncIterator[ModelItem]:
            self.pass_by(seconds)
            yield TextDelta("A")
            self.pass_by(1)
            yield replace(turn, content="A", usage=usage)

        return items


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


async def decide(stage: Stage, clock: Clock, number: int, seconds: float, decision: Decision) -> None:
    """Decide the stage's request of this number after so many seconds, and wait for the call's end."""
    clock.pass_by(seconds)
    request = await stage.decide(decision, number)
    await stage.until(lambda: [one for one in stage.of(ToolCompleteEvent) if one.tool_call_id == request.tool_call_id])


def code(text: str) -> ModelTurn:
    return call("run_python", code=text)


@dataclass(frozen=True, slots=True)
class Notebook:
    """Three cells have run: in the first a person decides, in the second rules and the mode, in the third a script and
    a recording."""

    stage: Stage
    by_hand: RunMetrics
    by_rules: RunResult
    by_script: RunMetrics
    told: list[Any]
    """Of the runtime's listener to measures."""


@pytest.fixture
async def notebook(stages: Stages, clock: Clock) -> Notebook:
    def act(one: ApprovedCall, emit: Any) -> Outcome:
        clock.pass_by({"run_python": 1.5, "look": 0.25, "read": 0.5}[one.tool_name])
        return Outcome("error", "no") if "fails" in one.arguments_json else Outcome("success", "r" * 10)

    first = calls(code("a"), code("b"), call("a_tool_that\nthe_model_made_up"), call("run_python", cod="x"))
    turns = [
        clock.turn(first, 0.5, TokenUsage(1_000, 100, 400, 0, 30, Decimal("0.01"))),
        clock.turn(say("ok"), 7, TokenUsage(2_000, 10, cost=Decimal("0.02"))),
        calls(call("read", key="a"), code("fails"), code("no"), usage=(10, 1)),
        calls(call("read", key="a"), usage=(10, 1)),
        say("ok", usage=(10, 1)),
    ]
    turns += [calls(code("x"), code("y"), code("x = 1"), usage=(10, 1)), say("ok", usage=(10, 1))]
    stage = await stages(turns, executor=FunctionExecutor(act))
    told: list[Any] = []
    stage.runtime.listen_to_measures(told.extend)

    handle, _ = await stage.asking(2, tools=TOOLS)
    await decide(stage, clock, 1, 4, YES)  # which then runs for 1.5 s, while the other waits
    await decide(stage, clock, 2, 2, NO)
    by_hand = (await handle.wait()).metrics
    rules = ('allow run_python where code is "fails"', 'deny run_python where code is "no"')
    by_rules = await stage.run(tools=TOOLS, rules=rules)
    script = (approve("run_python", {"code": "x"}), deny("No.", "run_python"), recorded(True, {"code": "x = 1"}))
    by_script = (await stage.run(tools=TOOLS, script=script)).metrics
    return Notebook(stage, by_hand, by_rules, by_script, told)


async def test_every_figure_of_a_run_is_exact(notebook: Notebook) -> None:
    assert notebook.by_hand == RunMetrics(
        calls=4,
        outcomes={"success": 1, "denied": 1, "invalid": 2},
        decided_by={"user": 2},
        errors={"invalid": 2},
        asked=2,
        wait_seconds=4 + 7.5,
        ran=1,
        call_seconds=1.5,
        longest_call_seconds=1.5,
        result_bytes=10,
        steps=2,
        first_token_seconds=0.5,
        tokens={"input": 3_000, "cached": 400, "output": 110, "reasoning": 30},
        cost=0.03,
    )
    assert notebook.by_rules.metrics == RunMetrics(
        calls=4,
        outcomes={"success": 2, "denied": 1, "error": 1},
        decided_by={"policy": 2, "rule": 2},
        errors={"failed": 1},
        ran=2,
        call_seconds=2.0,
        longest_call_seconds=1.5,
        result_bytes=sum(len(str(one.result)) for one in notebook.by_rules.tool_calls if one.state != "denied"),
        cache_hits=1,
        steps=3,
        first_token_seconds=0.0,
        tokens={"input": 30, "output": 3},
    )
    three = notebook.by_script
    assert (three.outcomes, three.decided_by) == ({"success": 2, "denied": 1}, {"script": 2, "recording": 1})
    assert (three.asked, three.wait_seconds, three.ran, three.call_seconds) == (0, 0.0, 2, 3.0)


async def test_every_figure_of_a_notebook_and_all_that_was_told_is_exact(notebook: Notebook) -> None:
    report = await notebook.stage.log.read(lambda sql: read_metrics(sql, 30, NOON))
    assert report.totals.calls == 11
    assert report.totals.decided_by == {"user": 2, "policy": 2, "rule": 2, "script": 2, "recording": 1}
    assert (report.totals.wait_seconds, report.totals.call_seconds) == (11.5, 1.5 + 2.0 + 3.0)
    by_tool = {"run_python": 8, "read": 2, "unknown": 1}
    assert {row.tool: row.calls for row in report.by_tool} == by_tool
    assert [(row.model, row.calls) for row in report.by_model] == [("scripted", 11)]
    rows = {(row.tool, row.model, row.day, row.calls) for row in report.rows}
    assert rows == {(tool, "scripted", "2026-11-21", count) for tool, count in by_tool.items()}
    counted = {"runs": 3, "statuses": {"complete": 3}, "steps": 7, "answered": 3, "first_token_seconds": 0.5}
    assert asdict(report.runs) == counted
    assert (report.tokens, report.cost) == ({"input": 3_050, "cached": 400, "output": 115, "reasoning": 30}, 0.03)
    kinds = [(kind, sum(isinstance(one, kind) for one in notebook.told)) for kind in (CallMeasure, Turn, RunMeasure)]
    assert kinds == [(CallMeasure, 11), (Turn, 7), (RunMeasure, 3)]
    assert "made_up" not in repr(notebook.told)
