"""What may be set as a limit, what a service does not count, what tools may take, and what a conversation may."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from agent_kernel.approvals.limits import checked_limits, least
from agent_kernel.errors import ConfigurationError, ToolDeclarationError
from agent_kernel.models.base import ModelTurn
from agent_kernel.notebook.options import Budget
from agent_kernel.protocol.commands import BudgetAddition
from agent_kernel.protocol.events import ErrorEvent
from agent_kernel.protocol.vocabulary import BudgetLimits
from agent_kernel.runtime.runtime import Runtime
from agent_kernel.runtime.settings import RunSpec
from agent_kernel.testing import ScriptedModel, call, calls, say
from agent_kernel.tools.declaration import checked_timeouts
from agent_kernel.tools.function import tool
from tests.core.runtime.runtime_fixtures import (
    LOOK,
    RUN_PYTHON,
    FunctionExecutor,
    InterruptibleExecutor,
    OneModel,
    Stages,
    stage,
)
from tests.core.runtime.turns.test_budget import run_view, until_paused

ABSURD: list[Any] = [-1, True, False, float("nan"), float("inf"), -float("inf"), "5", 10**400, 10**15, [1]]
FIELDS = ["tokens", "usd", "tool_calls", "seconds", "steps"]


@pytest.mark.parametrize("name", FIELDS)
def test_a_limit_that_is_no_number_is_refused_and_named(name: str) -> None:
    for value in ABSURD:
        with pytest.raises(ConfigurationError, match=name):
            Budget(**{name: value})
        with pytest.raises(ConfigurationError, match=name):
            checked_limits({name: value})
        if value != "5" and value != [1]:
            with pytest.raises(ValidationError):
                BudgetAddition.model_validate({name: value})


def test_who_may_only_tighten_makes_no_limit_larger() -> None:
    site = BudgetLimits(tokens=100, steps=5)
    assert least(site, BudgetLimits(tokens=1_000, steps=3, seconds=9)) == BudgetLimits(tokens=100, steps=3, seconds=9)


@pytest.mark.parametrize("seconds", [0, -1, True, float("nan"), float("inf"), "5"])
def test_a_timeout_that_is_no_number_above_0_is_refused(seconds: Any) -> None:
    def slow() -> None:
        """Be slow."""

    with pytest.raises(ToolDeclarationError, match="timeout"):
        tool(timeout=seconds)(slow)
    with pytest.raises(ConfigurationError, match="run_python"):
        checked_timeouts({"run_python": seconds}, "timeouts")


SLOW = [call("run_python", call_id="slow", code="1"), say("Done.")]


@pytest.mark.parametrize(("own", "sites"), [(0.05, {}), (600, {"run_python": 0.05})], ids=["the tool's", "the site's"])
async def test_a_call_that_takes_too_long_is_interrupted_and_the_model_is_told(
    stages: Stages, own: float, sites: dict[str, float]
) -> None:
    stage = await stages(SLOW, executor=InterruptibleExecutor(), tool_timeouts=sites)
    result = await stage.run(tools=(replace(RUN_PYTHON, timeout=own), LOOK), policy="allow")
    [ran] = result.tool_calls
    assert (ran.state, ran.reason) == ("error", "Timed out after 0.05 s.")
    assert [output.text for output in ran.outputs] == ["begun"]
    [told] = [m["content"] for m in stage.model.requests[-1].messages if m["role"] == "tool"]
    assert told.startswith("Error: Timed out after 0.05 s.")
    assert result.run.status == "complete"


async def test_a_call_that_does_not_end_at_its_timeout_has_an_unknown_outcome(stages: Stages) -> None:
    executor = FunctionExecutor(lambda *_: asyncio.Event().wait())
    stage = await stages(SLOW, executor=executor, attended=False, stop_seconds=0.01)
    result = await stage.run(tools=(replace(RUN_PYTHON, timeout=0.05),), policy="allow")
    [ran] = result.tool_calls
    assert (ran.state, ran.reason) == ("unknown", "Timed out after 0.05 s. It did not end when it was interrupted.")


async def test_a_budget_of_a_conversation_counts_all_of_its_runs(stages: Stages) -> None:
    whole = BudgetLimits(tool_calls=3)
    turns = [call("look", call_id="a"), call("look", call_id="b"), say("One."), call("look", call_id="c"), say("Two.")]
    stage = await stages(turns)
    assert (await stage.run(conversation_budget=whole)).text == "One."
    handle = await stage.start(conversation_budget=whole)
    pause = await until_paused(stage)
    view = run_view(stage)
    assert (view.paused.of, view.paused.reached) == ("conversation", ["tool_calls"])
    assert (view.usage.tool_calls, view.conversation_budget.spent.tool_calls) == (1, 2)
    [said] = stage.of(ErrorEvent)
    assert said.message.startswith("The budget of this conversation is reached: 3 of 3 tool calls.")
    await stage.conversation.raise_budget(handle.run_id, pause, BudgetLimits(tool_calls=2), decided_by="ana")
    result = await handle.wait()
    assert (result.text, result.run.conversation_budget.limits.tool_calls) == ("Two.", 5)
    [raised] = [entry for entry in await stage.audit() if entry["kind"] == "budget"]
    assert (raised["of"], raised["limits"], raised["decided_by"]) == ("conversation", {"tool_calls": 5}, "ana")


# -- a run that repeats itself


def looks(*names: str) -> list[ModelTurn]:
    return [call("look") if name == "look" else call("run_python", code=name) for name in names]


REPEATED = "run_python gave the same result to the same arguments three times"


async def test_three_times_the_same_call_with_the_same_result_asks_whether_to_go_on(stages: Stages) -> None:
    with ScriptedModel([*looks("1", "1", "1"), *looks("1", "1"), say("Done.")]) as model:
        stage = await stages(model, pause_at_repeats=True)
        handle = await stage.start(policy="allow")
        pause = await until_paused(stage)
        assert len(model.requests) == 3
        paused = run_view(stage).paused
        assert (paused.repeated, paused.reached) == (REPEATED, [])
        await stage.conversation.raise_budget(handle.run_id, pause, BudgetLimits(), decided_by="ana")
        result = await handle.wait()  # the count begins again: twice more is no third time
    assert result.text == "Done."
    assert [(raised.repeated, raised.decided_by) for raised in result.run.raises] == [(REPEATED, "ana")]


async def test_tokens_that_a_service_does_not_count_are_estimated_and_hold_the_budget(stages: Stages) -> None:
    turns = [call("look", call_id="a"), call("look", call_id="b")]
    stage = await stages(turns, executor=FunctionExecutor(lambda *_: "x" * 7_000))
    await stage.start("Go", budget=BudgetLimits(tokens=2_000))
    await until_paused(stage)
    view = run_view(stage)
    assert view.usage.estimated
    assert 2_000 < view.usage.total_tokens < 8_000
    assert view.paused.reached == ["tokens"]
    [said] = stage.of(ErrorEvent)
    assert said.message.startswith("Budget reached: about ")


async def test_of_a_turn_with_more_calls_than_the_conversation_has_left_only_so_many_start(stages: Stages) -> None:
    many = calls(*(call("look", call_id=f"c{number}") for number in range(3)))
    turns, whole = [call("look", call_id="a"), say("One."), many], BudgetLimits(tool_calls=2)
    stage = await stages(turns, attended=False, conversation_budget=whole)
    await stage.run()
    result = await stage.run()
    assert [one.state for one in result.tool_calls] == ["success", "denied", "denied"]
    assert "conversation's budget of tool calls" in result.tool_calls[1].reason


async def test_a_conversations_budget_outlives_the_process_with_what_was_added(tmp_path: Path) -> None:
    path, whole = tmp_path / "log.sqlite", BudgetLimits(steps=1)
    with ScriptedModel([call("look"), say("One.")]) as model:
        before = await stage(model, path)
        handle = await before.start(conversation_budget=whole)
        pause = await until_paused(before)
        await before.conversation.raise_budget(handle.run_id, pause, BudgetLimits(steps=2))
        await handle.wait()
        conversation_id = before.conversation.conversation_id
        await before.close()
    with ScriptedModel([call("look", call_id="z")]) as model:
        runtime = await Runtime.open(path, OneModel(model), attended=False)
        conversation = await runtime.conversation(conversation_id)
        spec = RunSpec(run_id="run_after", prompt="Go", tools=(LOOK,), conversation_budget=whole)
        result = await (await conversation.start_run(spec, FunctionExecutor())).wait()
        await runtime.aclose()
    assert "3 of 3 steps" in result.run.error.message
    assert result.run.usage.steps == 1


async def test_a_run_that_repeats_itself_ends_where_nobody_can_be_asked(stages: Stages) -> None:
    with ScriptedModel(looks("1", "1", "1")) as model:
        stage = await stages(model, pause_at_repeats=True, attended=False)
        result = await stage.run(policy="allow")
    assert result.run.error.message.startswith(f"The agent repeats itself: {REPEATED}. The run stopped before its next")
