"""Validates the counts and costs that services report, so that a wrong one can neither mislead nor break anything."""

from collections.abc import Mapping
from dataclasses import fields, replace
from decimal import Decimal
from typing import Any

from agent_kernel.models.base import TokenUsage

MOST_TOKENS = 100_000_000
"""The largest plausible count of a turn; larger ones are taken for faults of the service."""
MOST_DOLLARS = 10_000
"""The largest plausible cost of a turn; larger ones are taken for faults of the service, or of a table of prices."""
_COST_HEADER = "x-litellm-response-cost"
COUNTS = tuple(field.name for field in fields(TokenUsage) if field.name != "cost")
"""The names of the counts of tokens in `TokenUsage`."""


def token_usage(
    input_tokens: Any, output_tokens: Any, *, cached: Any = None, cache_write: Any = None, reasoning: Any = None
) -> TokenUsage:
    """The tokens of a turn. If a total is not a valid count (negative, too large, not whole, a bool, a text), nothing
    counts as reported: `TokenUsage()`. A part that is invalid or larger than its total is dropped."""
    taken, written = _count(input_tokens), _count(output_tokens)
    if taken is None or written is None:
        return TokenUsage()
    from_cache = _part(cached, taken)
    return TokenUsage(
        input_tokens=taken,
        output_tokens=written,
        cached_tokens=from_cache,
        cache_write_tokens=_part(cache_write, taken - from_cache),
        reasoning_tokens=_part(reasoning, written),
    )


def openai_usage(reported: Any) -> TokenUsage:
    """The tokens and the cost from the `usage` of OpenAI's APIs, in the variants that services send."""
    if not isinstance(reported, dict):
        return TokenUsage()
    return replace(_openai_tokens(reported), cost=reported_cost(reported))


def _openai_tokens(reported: dict[str, Any]) -> TokenUsage:
    if not any(name in reported for name in _INPUT + _OUTPUT):
        return TokenUsage()
    input_tokens, output_tokens = _first(reported, _INPUT), _first(reported, _OUTPUT)
    reasoning = _first(reported, _REASONING)
    total, taken, written = (_count(one) for one in (reported.get("total_tokens"), input_tokens, output_tokens))
    if total and taken is not None and written is not None and total > taken + written:
        # Gemini and xAI count reasoning in the total only, and bill it as output.
        reasoning = total - taken - written
        output_tokens = written + reasoning
    return token_usage(
        input_tokens,
        output_tokens,
        cached=_first(reported, _CACHED),
        cache_write=_first(reported, _CACHE_WRITE),
        reasoning=reasoning,
    )


def reported_cost(usage: dict[str, Any]) -> Decimal | None:
    """The cost in the `usage` of OpenRouter and LiteLLM, in US dollars, if it is valid. Where a user's own key pays
    for a model at OpenRouter, `cost` is OpenRouter's fee alone, and what the key pays stands beside it."""
    cost = _dollars(usage.get("cost"))
    if cost is None or usage.get("is_byok") is not True:
        return cost
    details = usage.get("cost_details")
    upstream = _dollars(details.get("upstream_inference_cost")) if isinstance(details, dict) else None
    return None if upstream is None else cost + upstream


def with_cost_of(usage: TokenUsage, headers: Mapping[str, str]) -> TokenUsage:
    """The usage with the cost in LiteLLM's header, if the body has none. The header of a streamed answer is written
    before the answer, so a 0 in it says nothing."""
    if usage.cost is not None:
        return usage
    said = headers.get(_COST_HEADER, "")[:_LONGEST_NUMBER]
    try:
        return replace(usage, cost=_dollars(float(said)) or None)
    except ValueError:
        return usage


def _dollars(value: Any) -> Decimal | None:
    """A valid amount: a finite number, neither negative nor larger than any turn costs."""
    if type(value) not in (int, float) or not 0 <= value <= MOST_DOLLARS:  # false for NaN
        return None
    return Decimal(repr(value))


_LONGEST_NUMBER = 40
"""Characters of a header that are read."""
_INPUT = ("prompt_tokens", "input_tokens")
_OUTPUT = ("completion_tokens", "output_tokens")
_CACHED = (
    "prompt_tokens_details.cached_tokens",
    "input_tokens_details.cached_tokens",
    "prompt_cache_hit_tokens",  # DeepSeek
    "cached_tokens",  # Moonshot
    "cache_read_input_tokens",  # proxies of Anthropic's models
)
_CACHE_WRITE = (
    "prompt_tokens_details.cache_write_tokens",
    "input_tokens_details.cache_write_tokens",
    "prompt_tokens_details.cache_creation_tokens",  # LiteLLM
    "cache_creation_input_tokens",
)
_REASONING = (
    "completion_tokens_details.reasoning_tokens",
    "output_tokens_details.reasoning_tokens",
    "reasoning_tokens",
)


def _first(reported: dict[str, Any], paths: tuple[str, ...]) -> Any:
    """The value of the first field that exists, or 0."""
    for path in paths:
        outer, _, inner = path.partition(".")
        value = reported.get(outer)
        if inner:
            value = value.get(inner) if isinstance(value, dict) else None
        if value is not None:
            return value
    return 0


def is_count(value: Any) -> bool:
    """Whether a value is a plausible count of tokens."""
    return _count(value) is not None


def _count(value: Any) -> int | None:
    if isinstance(value, float) and value.is_integer():  # false for infinities and NaN
        value = int(value)
    if type(value) is not int or not 0 <= value <= MOST_TOKENS:
        return None
    return value


def _part(value: Any, whole: int) -> int:
    part = _count(value)
    return part if part is not None and part <= whole else 0
