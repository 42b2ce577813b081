"""Whether a service refuses a request because it is too long, read from its own words.

Services agree neither on a status nor on a code, so the wording decides as well. Found in their documentation, their
sources and the issue trackers of their clients: OpenAI, Azure, Anthropic, Gemini, Mistral, xAI, Groq, OpenRouter,
Bedrock, Kimi, vLLM, SGLang, llama.cpp, Ollama, LM Studio.
"""

import re
from dataclasses import dataclass

LARGER_CONTEXT = (
    "Choose a model with a larger context, offer fewer tools with --tools, or ask for less at once. "
    "For Ollama raise OLLAMA_CONTEXT_LENGTH (num_ctx)."
)
"""What to do where a conversation does not fit, however much of it is shortened."""
_CODES = frozenset(
    {
        "context_length_exceeded",
        "exceed_context_size_error",
        "context_exceeded",
        "model_context_window_exceeded",
        "request_too_large",
    }
)
_TOO_LARGE = 413
_WORDS = re.compile(
    r"(?i)context (?:length|window|size)|context limit|maximum context|prompt is too long|prompt too long"
    r"|input is too long|input token count|(?:maximum|max) (?:prompt|input|model) length"
    r"|too large for model with|exceeded model token limit|too many input tokens|reduce the length of the"
)
_OTHERWISE = re.compile(r"(?i)rate.?limit|per min|quota|too many requests")
"""A request that is too long for what a key may use in a minute is not helped by this model's context."""

_NUMBER = r"(?P<number>\d[\d,_]*)"
_LIMITS = tuple(
    re.compile(pattern.replace("N", _NUMBER))
    for pattern in (
        r"(?i)> ?N(?: maximum)?\b",
        r"(?i)(?:context|prompt|model)(?: length| size| window)? (?:of |is |\()(?:only )?N",
        r"(?i)maximum number of tokens allowed \(N",
        r"(?i)with N maximum context",
        r"(?i)token limit: N",
        r"(?i)max_seq_len N",
    )
)
_SIZES = tuple(
    re.compile(pattern.replace("N", _NUMBER))
    for pattern in (
        r"(?i)\bN tokens? ?>",
        r"(?i)(?:resulted in|requested|contains|too long:) (?:a total of |about )?N",
        r"(?i)(?:request|requested tokens|token count|input length) \(N",
    )
)
_LEAST, _MOST = 128, 100_000_000
"""A number outside of these is no count of tokens that a model takes."""


_READ = 2_000
"""Characters of what a service says; more is no error message."""


@dataclass(frozen=True, slots=True)
class TooLong:
    """What a refusal says of the request, where it says it."""

    size: int | None
    """Tokens that the request has, with the room for the answer where the service counts that."""
    limit: int | None
    """Tokens that the model takes."""


def too_long(status: int | None, code: str, detail: str) -> TooLong | None:
    """`None` for a refusal for another reason."""
    detail = detail[:_READ]
    if status not in (None, 400, _TOO_LARGE, 422, 500) or _OTHERWISE.search(detail):
        return None
    if code in _CODES or status == _TOO_LARGE or _WORDS.search(detail):
        return TooLong(size=_number(_SIZES, detail), limit=_number(_LIMITS, detail))
    return None


def _number(patterns: tuple[re.Pattern[str], ...], text: str) -> int | None:
    for pattern in patterns:
        found = pattern.search(text)
        if found is not None:
            number = int(re.sub(r"[,_]", "", found["number"])[:12])
            return number if _LEAST <= number <= _MOST else None
    return None
