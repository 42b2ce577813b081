"""What is believed of the tokens that a service says it has counted."""

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from agent_kernel.models.base import ModelTurn, TokenUsage
from agent_kernel.models.usage import MOST_DOLLARS, MOST_TOKENS, openai_usage, token_usage, with_cost_of
from agent_kernel.testing.wire.reply import Reply
from tests.core.models.model_apis import Events, WireApi, each_api
from tests.core.models.model_fixtures import TURN, connected, turn_of

NOT_REPORTED = TokenUsage()


@pytest.mark.parametrize(
    ("reported", "read"),
    [
        ({"prompt_tokens": 100, "completion_tokens": 20}, TokenUsage(100, 20)),
        ({"input_tokens": 100, "output_tokens": 20}, TokenUsage(100, 20)),
        (
            {
                "prompt_tokens": 100,
                "completion_tokens": 20,
                "total_tokens": 120,
                "prompt_tokens_details": {"cached_tokens": 64, "cache_write_tokens": 30, "audio_tokens": 0},
                "completion_tokens_details": {"reasoning_tokens": 15},
            },
            TokenUsage(100, 20, cached_tokens=64, cache_write_tokens=30, reasoning_tokens=15),
        ),
        # What was thought, where a service has it in the total only.
        ({"prompt_tokens": 9, "completion_tokens": 2, "total_tokens": 15}, TokenUsage(9, 6, reasoning_tokens=4)),
    ],
)
def test_services_say_it_in_several_shapes(reported: Any, read: TokenUsage) -> None:
    assert openai_usage(reported) == read


@pytest.mark.parametrize("absurd", [-1, True, "812", MOST_TOKENS + 1])
def test_what_is_no_count_is_refused_and_counts_as_not_reported(absurd: Any) -> None:
    assert openai_usage({"prompt_tokens": absurd, "completion_tokens": 20}) == NOT_REPORTED
    assert openai_usage({"prompt_tokens": 100, "completion_tokens": absurd}) == NOT_REPORTED
    assert token_usage(100, 20, cached=absurd, cache_write=absurd, reasoning=absurd) == TokenUsage(100, 20)
    assert openai_usage({"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": absurd}) == TokenUsage(100, 20)


BYOK = {"cost": 0, "is_byok": True, "cost_details": {"upstream_inference_cost": 0.0001601}}
"""OpenRouter's fee, where the user's own key pays for the model."""


@pytest.mark.parametrize(
    ("said", "cost"),
    [
        ({"cost": 0.00014}, Decimal("0.00014")),
        (BYOK, Decimal("0.0001601")),
        (BYOK | {"cost": 0.5}, Decimal("0.5001601")),
        *(({"cost": odd}, None) for odd in (-0.01, float("nan"), MOST_DOLLARS + 1, True, "0.5")),
    ],
)
def test_a_cost_that_can_not_be_is_not_believed(said: Any, cost: Decimal | None) -> None:
    assert openai_usage({"prompt_tokens": 9, "completion_tokens": 2} | said) == TokenUsage(9, 2, cost=cost)


@pytest.mark.parametrize(
    ("header", "cost"),
    [
        ("3.45e-05", Decimal("3.45e-05")),
        ("0.0", None),
        ("None", None),
        ("-1", None),
        ("1e9", None),
        ("9" * 5_000, None),
    ],
)
def test_a_header_that_is_written_before_the_answer_costs_nothing_only_if_the_body_says_so(
    header: str, cost: Decimal | None
) -> None:
    headers = {"x-litellm-response-cost": header}
    assert with_cost_of(TokenUsage(9, 2), headers).cost == cost
    assert with_cost_of(TokenUsage(9, 2, cost=Decimal(0)), headers).cost == 0


def costing(api: WireApi, turn: ModelTurn, cost: Any) -> Events:
    """The events of a service that says what a turn costs."""
    events = api.events_of(turn)
    for event in events:
        holder = event.get("response") if isinstance(event.get("response"), dict) else event
        if isinstance(holder.get("usage"), dict):
            holder["usage"] = holder["usage"] | {"cost": cost}
    return events


@each_api
async def test_a_cost_in_an_answer_or_in_litellms_header_is_read(api: WireApi) -> None:
    for answer in (
        Reply(body=api.event_stream(costing(api, TURN, 0.25))),
        api.streamed(TURN, headers={"x-litellm-response-cost": "0.25"}),
    ):
        async with connected(answer, api=api) as (_, model):
            assert not model.facts.reports_cost
            assert (await turn_of(model)).usage == replace(TURN.usage, cost=Decimal("0.25"))
            assert model.facts.reports_cost
