"""A budget in US dollars: a hard limit like the others, that can't be checked where no price is known."""

import math
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from agent_kernel.errors import InvalidArguments
from agent_kernel.models.base import ModelFacts, ModelTurn, TokenUsage
from agent_kernel.protocol.commands import BudgetAddition
from agent_kernel.protocol.events import ErrorEvent
from agent_kernel.protocol.vocabulary import BudgetLimits
from agent_kernel.record import render_record
from agent_kernel.testing import ScriptedModel, call, say
from tests.core.record.record_examples import bare
from tests.core.runtime.runtime_fixtures import Stages
from tests.core.runtime.turns.test_budget import run_view, until_paused

OPENAI = ModelFacts("gpt-5", "https://api.openai.com/v1")
OLLAMA = ModelFacts("gpt-oss:20b", "http://localhost:11434/v1", server="Ollama")
PROXY = ModelFacts("gpt-5", "http://litellm:4000")
ELSEWHERE = ModelFacts("gpt-5", "https://models.example.org/v1")
HALF_A_CENT = TokenUsage(2_000, 250)
CENT = BudgetLimits(usd=0.01)
NO_PRICE = "No price is known for gpt-5, so the budget of $0.01 can't be checked."


def looks(usage: TokenUsage = HALF_A_CENT, call_id: str = "") -> ModelTurn:
    return ModelTurn("", tool_calls=call("look", call_id=call_id).tool_calls, usage=usage)


def model(*turns: Any, facts: ModelFacts = OPENAI) -> ScriptedModel:
    return ScriptedModel(turns, facts=facts, name=facts.wire_name)


async def test_a_run_that_has_spent_its_dollars_waits_and_goes_on_with_what_a_person_adds(stages: Stages) -> None:
    with model(looks(), looks(), say("Done.")) as one:
        stage = await stages(one)
        handle = await stage.start(budget=CENT)
        pause = await until_paused(stage)
        assert (run_view(stage).paused.reached, run_view(stage).paused.unpriced) == (["usd"], False)
        assert stage.of(ErrorEvent)[-1].message == (
            "Budget reached: $0.01 of 0.01 US dollars. The run is paused before its next model call."
        )
        with pytest.raises(InvalidArguments, match="Add usd too"):
            await stage.conversation.raise_budget(handle.run_id, pause, BudgetLimits(tokens=5))
        await stage.conversation.raise_budget(handle.run_id, pause, BudgetLimits(usd=0.25), decided_by="ana")
        result = await handle.wait()
    assert (result.text, result.run.budget.usd) == ("Done.", 0.26)
    assert "Budget raised by ana: $0.25." in bare(
        render_record(result.run, result.messages, result.tool_calls)["text/html"]
    )


@pytest.mark.parametrize("facts", [ELSEWHERE, PROXY, ModelFacts("gpt-5"), ModelFacts("no-such", OPENAI.base_url)])
async def test_where_no_price_is_known_the_run_asks_before_its_first_request(stages: Stages, facts: ModelFacts) -> None:
    one = model(say("Done."), facts=facts)
    stage = await stages(one)
    handle = await stage.start(budget=CENT)
    pause = await until_paused(stage)
    assert one.requests == []
    assert (run_view(stage).paused.reached, run_view(stage).paused.unpriced) == (["usd"], True)
    [notice] = run_view(stage).notices
    assert notice.content == NO_PRICE.replace("gpt-5", facts.wire_name)
    for refused in (BudgetLimits(usd=100), BudgetLimits()):
        with pytest.raises(InvalidArguments, match="can't be checked"):
            await stage.conversation.raise_budget(handle.run_id, pause, refused)
    assert run_view(stage).budget.usd == 0.01
    await stage.conversation.raise_budget(handle.run_id, pause, BudgetLimits(), without_usd=True, decided_by="ana")
    result = await handle.wait()
    assert (result.text, result.run.budget.usd) == ("Done.", None)
    assert result.run.raises[0].without_usd
    record = bare(render_record(result.run, result.messages, result.tool_calls)["text/html"])
    assert "Limit in US dollars taken away by ana." in record


@pytest.mark.parametrize("usd", [0, 0.01])
async def test_a_local_model_and_a_recording_keep_within_any_budget(stages: Stages, usd: float) -> None:
    for one in (
        model(looks(), looks(), say("Done."), facts=OLLAMA),
        ScriptedModel([looks(), say("Done.")], recorded=True),
    ):
        with one:
            result = await (await (await stages(one)).start(budget=BudgetLimits(usd=usd))).wait()
        assert (result.run.status, result.text) == ("complete", "Done.")


@pytest.mark.parametrize("usd", [-0.01, math.nan, math.inf])
def test_a_limit_that_is_no_amount_is_refused(usd: float) -> None:
    with pytest.raises(ValueError, match="usd"):
        BudgetLimits(usd=usd)
    with pytest.raises(ValidationError):
        TypeAdapter(BudgetLimits).validate_python({"usd": usd})
    with pytest.raises(ValidationError):
        BudgetAddition(usd=usd)
