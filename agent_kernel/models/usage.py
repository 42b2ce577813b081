"""Validates the token counts that services report, so that a wrong one can neither mislead nor break anything."""

from typing import Any

from agent_kernel.models.base import TokenUsage

MOST_TOKENS = 100_000_000
"""The largest plausible count of a turn; larger ones are taken for faults of the service."""


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
    """The tokens from the `usage` of OpenAI's APIs, in the variants that services send."""
    if not isinstance(reported, dict) or not any(name in reported for name in _INPUT + _OUTPUT):
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
