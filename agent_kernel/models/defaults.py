"""The model that is asked where nobody names one: one for each provider whose key is enough to begin.

Chosen on 2026-11-21, from the names that the providers' own clients know (openai 3.54, anthropic 2.12) and that
genai-prices 0.2.3 has a price for, so that the first run shows what it cost. Both are the middle of their family, at
$2 for a million tokens of input and $10 of output: able to work with tools for long, at a fifth of what the largest
costs (`gpt-6-astra`: $10 and $50). The small ones (`gpt-6-luna`, `claude-haiku-5-5`) are a name away.
"""

from typing import Literal

Provider = Literal["OpenAI", "Anthropic"]

DEFAULT_MODELS: dict[Provider, str] = {
    "OpenAI": "gpt-6.1-sol",
    "Anthropic": "claude-sonnet-5-5",
}
