"""What is known of models: defaults, capabilities and capabilities by name without a request."""

import difflib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from agent_kernel.models import prices
from agent_kernel.models.base import LocalServer

Provider = Literal["OpenAI", "Anthropic"]

DEFAULT_MODELS: dict[Provider, str] = {
    "OpenAI": "gpt-6.1-sol",
    "Anthropic": "claude-sonnet-5-5",
}
"""The models that are used if none is named: one for each provider whose key alone is enough to begin.

Chosen on 2026-11-21 from the names that the providers' own clients know (openai 3.54, anthropic 2.12) and that
genai-prices 0.2.3 has a price for, so that the first run shows what it cost. Both are the middle of their family, at
$2 for a million tokens of input and $10 of output: able to work with tools for long, at a fifth of the price of the
largest (`gpt-6-astra`: $10 and $50).
"""

_BEYOND_TEXT = re.compile(
    r"(?i)embed|whisper|\btts\b|dall-e|transcri|realtime|moderation|rerank|\bsora|davinci|babbage|-live\b|speech"
    r"|(gpt|chatgpt)-(image|audio|live)|-image(-|$)|-audio|imagen|\bveo\b|gpt-\S*-search|turbo-instruct"
)
"""Names in providers' lists that are no chat models, or take no tools."""
_SEES_AND_ACTS = re.compile(
    r"(?i)gpt-(4o|4\.1|4\.5|4-turbo|[5-9])|\bo[1-9]\b(?!-(mini|preview))|\bo4-mini|claude-(?!2|v1|instant)|gemini-"
)
"""Families whose models all take images and tools."""
_ACTS = re.compile(
    r"(?i)\bo3-mini|gpt-oss|qwen-?[3-9]|llama-?(3\.[1-3]|4)|mistral-(large|medium|small)|kimi-k|glm-[4-9]"
)
_SEES = re.compile(r"(?i)[-.\d]vl\b|\bvl[-:\d]|llava|pixtral|vision|gemma-?[3-9]|llama-?4|moondream|internvl|minicpm-v")
SUGGESTED = 5
"""The most models to suggest."""
_LIKENESS = 0.6
OPENAI_NAMES = re.compile(r"(gpt-|chatgpt-|o\d)")
"""The prefixes of OpenAI's own models."""


@dataclass(frozen=True, slots=True)
class Capabilities:
    """The properties of a model from one source; `None` means that it does not say."""

    images: bool | None = None
    tools: bool | None = None
    context_tokens: int | None = None
    server: LocalServer | None = None
    """The program that says that it runs the model itself."""

    def over(self, other: "Capabilities") -> "Capabilities":
        """Both combined; this one wins where both say something."""
        return Capabilities(
            images=other.images if self.images is None else self.images,
            tools=other.tools if self.tools is None else self.tools,
            context_tokens=other.context_tokens if self.context_tokens is None else self.context_tokens,
            server=other.server if self.server is None else self.server,
        )


NOTHING_KNOWN = Capabilities()


def answers_prompts(name: str) -> bool:
    return _BEYOND_TEXT.search(name) is None


def capabilities_by_name(name: str, base_url: str) -> Capabilities:
    """The capabilities of well-known families, and their context size at their makers' own addresses."""
    both = _SEES_AND_ACTS.search(name) is not None
    return Capabilities(
        images=True if both or _SEES.search(name) else None,
        tools=True if both or _ACTS.search(name) else None,
        context_tokens=prices.listed_context(name, base_url) if prices.is_loaded() else None,
    )


def near(wanted: str, names: Iterable[str]) -> list[str]:
    """The names most similar to `wanted`."""
    return difflib.get_close_matches(wanted, names, n=SUGGESTED, cutoff=_LIKENESS)
