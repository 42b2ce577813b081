"""What a run spends: tokens of each kind, and US dollars where a price is known. One that reaches its budget, of calls
or of dollars, waits for a person, and nothing of it is lost meanwhile."""

from pathlib import Path
from typing import Any

import pytest

from agent_kernel.errors import InvalidArguments
from agent_kernel.models.base import ModelFacts, ModelTurn, TokenUsage
from agent_kernel.protocol.events import ApprovalRequestEvent, CompleteEvent, ErrorEvent
from agent_kernel.protocol.run_results import RunResult
from agent_kernel.protocol.vocabulary import BudgetLimits
from agent_kernel.record import render_record
from agent_kernel.runtime.runs.queue import RunHandle
from agent_kernel.testing import ScriptedModel, call, calls, say
from tests.core.record.record_examples import bare
from tests.core.runtime.runtime_fixtures import Stage, Stages, run_view, second_life, until_paused

TWO_CALLS, ONE_MORE = BudgetLimits(tool_calls=2), BudgetLimits(tool_calls=1)
LOOKS = [call("look", call_id="a"), call("look", call_id="b")]


async def paused(
    stages: Stages, turns: Any, budget: BudgetLimits = TWO_CALLS, **options: Any
) -> tuple[Stage, RunHandle, str]:
    """A run that waits at its budget, and the pause's id."""
    stage = await stages(turns, **options)
    handle = await stage.start(budget=budget)
    return stage, handle, await until_paused(stage)


async def test_a_run_at_its_budget_waits_and_goes_on_with_what_a_person_adds(stages: Stages) -> None:
    stage, handle, pause = await paused(stages, [*LOOKS, say("Done.")])
    assert (run_view(stage).status, run_view(stage).paused.reached) == ("running", ["tool_calls"])
    assert len(stage.model.requests) == 2
    # A client that knows no pauses is told why nothing moves.
    [error] = stage.of(ErrorEvent)
    assert (error.code, error.details) == ("BUDGET_EXCEEDED", {"pause_id": pause})
    assert error.message == "Budget reached: 2 of 2 tool calls. The run is paused before its next model call."
    assert stage.of(CompleteEvent) == []
    await stage.conversation.raise_budget(handle.run_id, pause, ONE_MORE, decided_by="ana")
    result = await handle.wait()
    assert (result.run.status, result.text, result.run.paused) == ("complete", "Done.", None)
    assert result.run.budget.tool_calls == 3
    [raised] = result.run.raises
    assert (raised.decided_by, raised.add.tool_calls, raised.steps) == ("ana", 1, 2)
    assert stage.roles() == ["system", "user", *("assistant", "tool") * 2]


async def test_where_nobody_can_be_asked_the_run_ends(stages: Stages) -> None:
    stage = await stages(LOOKS, attended=False)
    result = await stage.run(budget=TWO_CALLS)
    assert result.run.error is not None
    assert (result.run.status, result.run.error.code) == ("error", "BUDGET_EXCEEDED")
    assert [one.state for one in result.tool_calls] == ["success", "success"]


async def test_a_paused_run_is_paused_after_a_restart_and_goes_on_then(stages: Stages, tmp_path: Path) -> None:
    before, handle, pause = await paused(stages, LOOKS, path=tmp_path / "log.sqlite")
    async with second_life(before, say("Done.")) as again:
        [shown] = (await again.conversation.view()).runs
        assert shown.paused is not None
        assert (shown.paused.pause_id, again.model.requests) == (pause, [])
        await again.conversation.raise_budget(handle.run_id, pause, ONE_MORE)
        result = await again.handles[0].wait()
    assert (result.text, result.run.budget.tool_calls) == ("Done.", 3)
    assert again.executor.ran == []
    assert again.roles() == ["system", "user", *("assistant", "tool") * 2]


async def test_who_asks_for_something_new_while_a_run_is_paused_is_in_the_audit_trail(stages: Stages) -> None:
    stage, handle, _ = await paused(stages, [*LOOKS, say("Heard.")])
    await stage.conversation.send_message("And now?", decided_by="eve")
    await stage.until(lambda: len(stage.of(CompleteEvent)) == 2)
    assert (await handle.wait()).run.status == "error"
    [sent] = [entry for entry in await stage.audit() if entry["kind"] == "message"]
    assert (sent["run_id"], sent["tool_call_ids"]) == (handle.run_id, [])
    assert (sent["by"], sent["decided_by"]) == ("user", "eve")


OPENAI = ModelFacts("gpt-5", "https://api.openai.com/v1")
OLLAMA = ModelFacts("gpt-oss:20b", "http://localhost:11434/v1", server="Ollama")

ELSEWHERE = ModelFacts("gpt-5", "https://models.example.org/v1")
HALF_A_CENT = TokenUsage(2_000, 250)
CENT = BudgetLimits(usd=0.01)
NO_PRICE = "No price is known for gpt-5, so the budget of $0.01 can't be checked."


def looks(usage: TokenUsage = HALF_A_CENT, call_id: str = "") -> ModelTurn:
    return ModelTurn("", tool_calls=call("look", call_id=call_id).tool_calls, usage=usage)


def record_of(result: RunResult) -> str:
    return bare(render_record(result.run, result.messages, result.tool_calls)["text/html"])


def model(*turns: Any, facts: ModelFacts = OPENAI) -> ScriptedModel:
    return ScriptedModel(turns, facts=facts, name=facts.wire_name)


async def test_a_run_that_has_spent_its_dollars_waits_and_goes_on_with_what_a_person_adds(stages: Stages) -> None:
    with model(looks(), looks(), say("Done.")) as one:
        stage, handle, pause = await paused(stages, one, CENT)
        shown = run_view(stage).paused
        assert (shown.reached, shown.unpriced) == (["usd"], False)
        why = "Budget reached: $0.01 of 0.01 US dollars. The run is paused before its next model call."
        assert stage.of(ErrorEvent)[-1].message == why
        with pytest.raises(InvalidArguments, match="Add usd too"):
            await stage.conversation.raise_budget(handle.run_id, pause, BudgetLimits(tokens=5))
        await stage.conversation.raise_budget(handle.run_id, pause, BudgetLimits(usd=0.25), decided_by="ana")
        result = await handle.wait()
    assert (result.text, result.run.budget.usd) == ("Done.", 0.26)
    assert "Budget raised by ana: $0.25." in record_of(result)


async def test_where_no_price_is_known_the_run_asks_before_its_first_request(stages: Stages) -> None:
    one = model(say("Done."), facts=ELSEWHERE)
    stage, handle, pause = await paused(stages, one, CENT)
    shown = run_view(stage)
    assert (one.requests, shown.paused.reached, shown.paused.unpriced) == ([], ["usd"], True)
    assert [notice.content for notice in shown.notices] == [NO_PRICE]
    for refused in (BudgetLimits(usd=100), BudgetLimits()):
        with pytest.raises(InvalidArguments, match="can't be checked"):
            await stage.conversation.raise_budget(handle.run_id, pause, refused)
    assert run_view(stage).budget.usd == 0.01
    await stage.conversation.raise_budget(handle.run_id, pause, BudgetLimits(), without_usd=True, decided_by="ana")
    result = await handle.wait()
    assert (result.text, result.run.budget.usd, result.run.raises[0].without_usd) == ("Done.", None, True)
    assert "Limit in US dollars taken away by ana." in record_of(result)


async def test_a_local_model_and_a_recording_keep_within_any_budget(stages: Stages) -> None:
    for one in (
        model(looks(), looks(), say("Done."), facts=OLLAMA),
        ScriptedModel([looks(), say("Done.")], recorded=True),
    ):
        with one:
            result = await (await stages(one)).run(budget=BudgetLimits(usd=0))
        assert (result.run.status, result.text) == ("complete", "Done.")


async def test_of_a_turn_with_more_calls_than_the_budget_only_so_many_start(stages: Stages) -> None:
    many = [call("look", call_id=f"c{number}") for number in range(5)]
    turns = [calls(*many, call("run_python", call_id="last", code="x")), say("Done.")]
    stage, handle, pause = await paused(stages, turns, BudgetLimits(tool_calls=3))
    assert [ran.tool_call_id for ran in stage.executor.ran] == ["c0", "c1", "c2"]
    await stage.conversation.raise_budget(handle.run_id, pause, ONE_MORE)
    result = await handle.wait()
    assert [one.state for one in result.tool_calls] == ["success"] * 3 + ["denied"] * 3
    assert result.run.usage.tool_calls == 3
    assert ["budget of tool calls is reached" in text for text in stage.told()] == [False] * 3 + [True] * 3
    assert not stage.of(ApprovalRequestEvent)
