"""What is believed of the tokens that a service says it has counted."""

from typing import Any

import pytest

from agent_kernel.models.base import TokenUsage
from agent_kernel.models.usage import MOST_TOKENS, openai_usage, token_usage

NOT_REPORTED = TokenUsage()


@pytest.mark.parametrize(
    ("reported", "read"),
    [
        ({"prompt_tokens": 100, "completion_tokens": 20}, TokenUsage(100, 20)),
        ({"input_tokens": 100, "output_tokens": 20}, TokenUsage(100, 20)),
        ({"prompt_tokens": 100.0, "completion_tokens": 0}, TokenUsage(100, 0)),
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
        (
            {"prompt_tokens": 100, "completion_tokens": 20, "prompt_cache_hit_tokens": 64},
            TokenUsage(100, 20, cached_tokens=64),
        ),
        ({"prompt_tokens": 100, "completion_tokens": 20, "cached_tokens": 64}, TokenUsage(100, 20, cached_tokens=64)),
        (
            {"prompt_tokens": 9, "completion_tokens": 2, "prompt_tokens_details": None, "cache_read_input_tokens": 5},
            TokenUsage(9, 2, cached_tokens=5),
        ),
    ],
)
def test_services_say_it_in_several_shapes(reported: Any, read: TokenUsage) -> None:
    assert openai_usage(reported) == read


def test_what_was_thought_counts_as_output_where_a_service_has_it_in_the_total_only() -> None:
    assert openai_usage({"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 150}) == TokenUsage(
        100, 50, reasoning_tokens=30
    )


@pytest.mark.parametrize("absurd", [-1, True, "812", float("nan"), float("inf"), 1.5, MOST_TOKENS + 1, [], {}, 10**400])
def test_what_is_no_count_is_refused_and_counts_as_not_reported(absurd: Any) -> None:
    assert openai_usage({"prompt_tokens": absurd, "completion_tokens": 20}) == NOT_REPORTED
    assert openai_usage({"prompt_tokens": 100, "completion_tokens": absurd}) == NOT_REPORTED
    assert token_usage(100, 20, cached=absurd, cache_write=absurd, reasoning=absurd) == TokenUsage(100, 20)
    assert openai_usage({"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": absurd}) == TokenUsage(100, 20)


@pytest.mark.parametrize("nothing", [None, [], "12", 7, {"total_tokens": 5}])
def test_what_holds_no_counts_is_not_reported(nothing: Any) -> None:
    assert openai_usage(nothing) == NOT_REPORTED


def test_a_part_is_never_larger_than_its_whole() -> None:
    assert token_usage(100, 20, cached=101, reasoning=21) == TokenUsage(100, 20)
    assert token_usage(100, 20, cached=60, cache_write=41) == TokenUsage(100, 20, cached_tokens=60)
