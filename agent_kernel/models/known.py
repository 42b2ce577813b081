"""What is known of models by their names, without asking anybody."""

import re
from dataclasses import dataclass

from agent_kernel.models import prices

_BEYOND_TEXT = re.compile(
    r"(?i)embed|whisper|\btts\b|dall-e|transcri|realtime|moderation|rerank|\bsora|davinci|babbage|-live\b|speech"
    r"|(gpt|chatgpt)-(image|audio|live)|-image(-|$)|-audio|imagen|\bveo\b|gpt-\S*-search|turbo-instruct"
)
"""Names in providers' lists that answer no prompts, or none with tools."""
_SEES_AND_ACTS = re.compile(
    r"(?i)gpt-(4o|4\.1|4\.5|4-turbo|[5-9])|\bo[1-9]\b(?!-(mini|preview))|\bo4-mini|claude-(?!2|v1|instant)|gemini-"
)
"""Families of which every model takes images and tools."""
_ACTS = re.compile(
    r"(?i)\bo3-mini|gpt-oss|qwen-?[3-9]|llama-?(3\.[1-3]|4)|mistral-(large|medium|small)|kimi-k|glm-[4-9]"
)
_SEES = re.compile(r"(?i)[-.\d]vl\b|\bvl[-:\d]|llava|pixtral|vision|gemma-?[3-9]|llama-?4|moondream|internvl|minicpm-v")
OPENAI_NAMES = re.compile(r"(gpt-|chatgpt-|o\d)")
"""How OpenAI's own models are named."""


@dataclass(frozen=True, slots=True)
class Told:
    """What one source says of a model; `None` where it says nothing."""

    images: bool | None = None
    tools: bool | None = None
    context_tokens: int | None = None

    def over(self, other: "Told") -> "Told":
        """Both, where this one has the first word."""
        return Told(
            images=other.images if self.images is None else self.images,
            tools=other.tools if self.tools is None else self.tools,
            context_tokens=self.context_tokens or other.context_tokens,
        )


NOTHING_TOLD = Told()


def answers_prompts(name: str) -> bool:
    return _BEYOND_TEXT.search(name) is None


def told_by_name(name: str, base_url: str) -> Told:
    """What the families that everybody knows can do, and how long their context is where their makers serve them;
    nothing of a name that says nothing."""
    both = _SEES_AND_ACTS.search(name) is not None
    return Told(
        images=True if both or _SEES.search(name) else None,
        tools=True if both or _ACTS.search(name) else None,
        # genai-prices takes a sixth of a second to load, which no first prompt waits for: see `resolver.warm_up`.
        context_tokens=prices.listed_context(name, base_url) if prices.is_loaded() else None,
    )
