"""What a run spends: tokens of each kind, and US dollars where a price is known."""

from collections.abc import AsyncGenerator
from decimal import Decimal
from typing import Any

import pytest

from agent_kernel.errors import ModelUnavailable
from agent_kernel.models import prices
from agent_kernel.models.base import LocalServer, ModelFacts, ModelItem, ModelRequest, ModelTurn, TextDelta, TokenUsage
from agent_kernel.models.prices import NO_PRICE, UNKNOWN, TurnCost, price_turn
from agent_kernel.protocol.events import CompleteEvent, UsageEvent
from agent_kernel.testing import ScriptedModel, call
from tests.core.runtime.runtime_fixtures import Stages

OPENAI = ModelFacts("gpt-5", "https://api.openai.com/v1")
ANTHROPIC = ModelFacts("claude-opus-4-7", "https://api.anthropic.com")
OLLAMA = ModelFacts("gpt-oss:20b", "http://localhost:11434/v1", server="Ollama")
TURN = TokenUsage(1_000, 100, cached_tokens=400)


def model(facts: ModelFacts = OPENAI, *turns: Any, recorded: bool = False) -> ScriptedModel:
    return ScriptedModel(turns, name=facts.wire_name, facts=facts, recorded=recorded)


def test_the_endpoint_and_the_model_make_the_price() -> None:
    per_token = Decimal("0.000001")
    expected = per_token * (600 * Decimal("1.25") + 400 * Decimal("0.125") + 100 * 10)
    assert price_turn(model(), TURN) == TurnCost(expected)


def test_what_is_written_to_a_cache_has_its_own_price() -> None:
    turn = TokenUsage(1_000, 100, cached_tokens=400, cache_write_tokens=500)
    expected = (100 * 5 + 400 * Decimal("0.5") + 500 * Decimal("6.25") + 100 * 25) / 1_000_000
    assert price_turn(model(ANTHROPIC), turn) == TurnCost(expected)


LOOPBACK = ("http://localhost:11434/v1", "http://127.0.0.1:8000", "http://[::1]:1/v1", "http://127.9.9.9/v1")


@pytest.mark.parametrize("address", LOOPBACK)
def test_a_model_that_is_known_to_run_on_this_machine_has_no_price_whatever_it_is_called(address: str) -> None:
    assert price_turn(model(ModelFacts("gpt-5", address, server="llama.cpp")), TURN) == NO_PRICE


@pytest.mark.parametrize(
    ("address", "server"),
    [*((address, None) for address in LOOPBACK), *((address, "vLLM") for address in (
        "http://10.2.3.4/v1", "http://litellm:4000", "http://localhost.example.org/v1",
    ))],
)  # fmt: skip
def test_an_address_that_only_looks_local_may_cost_something(address: str, server: LocalServer | None) -> None:
    facts = ModelFacts("a-company's-own", address, server=server)
    assert (price_turn(model(facts), TURN), prices.may_cost(model(facts))) == (UNKNOWN, True)


@pytest.mark.parametrize(
    "facts",
    [
        ModelFacts("gpt-5", "https://models.example.org/v1"),
        ModelFacts("gpt-5", "http://api.openai.com/v1"),
        ModelFacts("no-such-model", "https://api.openai.com/v1"),
        ModelFacts("gpt-5", None),
        ModelFacts("", "https://api.openai.com/v1"),
        ModelFacts("gpt-5", "https://[bad"),
    ],
)
def test_the_price_of_a_host_or_a_model_that_the_table_has_not_is_not_known(facts: ModelFacts) -> None:
    assert price_turn(model(facts), TURN) == UNKNOWN


def test_a_turn_of_which_the_service_says_nothing_has_no_known_price() -> None:
    assert price_turn(model(), TokenUsage()) == UNKNOWN
    assert price_turn(model(OLLAMA), TokenUsage()) == NO_PRICE


async def test_a_run_adds_up_its_turns(stages: Stages) -> None:
    step = ModelTurn("", tool_calls=call("look").tool_calls, usage=TURN)
    done = ModelTurn("Done.", usage=TokenUsage(1_200, 50, cached_tokens=1_000, reasoning_tokens=30))
    stage = await stages(model(OPENAI, step, done))
    usage = (await stage.run()).run.usage
    assert (usage.input_tokens, usage.output_tokens, usage.total_tokens) == (2_200, 150, 2_350)
    assert (usage.cached_tokens, usage.reasoning_tokens, usage.cache_write_tokens) == (1_400, 30, 0)
    assert (usage.cost, usage.cost_is_partial) == (0.0018 + 0.000875, False)
    assert [event.usage.cost for event in stage.of(UsageEvent)] == [0.0018]  # the last turn's is told by the run's end
    await stage.until(lambda: stage.of(CompleteEvent))
    assert stage.of(CompleteEvent)[0].usage == usage


async def test_an_answer_that_broke_off_may_have_cost_something(stages: Stages) -> None:
    async def breaks_off(request: ModelRequest) -> AsyncGenerator[ModelItem, None]:
        yield TextDelta("Half an ans")
        raise ModelUnavailable("The connection broke.")

    for turn, partial in ((breaks_off, True), (ModelUnavailable("Nobody answered."), False)):
        run = (await (await stages(model(OPENAI, turn))).run()).run
        assert (run.status, run.usage.cost, run.usage.cost_is_partial) == ("error", None, partial)
