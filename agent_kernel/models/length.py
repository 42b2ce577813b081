"""Recognises refusals of requests that are too long, by status, code and wording.

Services agree neither on a status nor on a code, so the wording decides as well. The phrases are from documentation,
sources and issue trackers of OpenAI, Azure, Anthropic, Gemini, Mistral, xAI, Groq, OpenRouter,
Bedrock, Kimi, vLLM, SGLang, llama.cpp, Ollama, LM Studio.
"""

import re
from dataclasses import dataclass

LARGER_CONTEXT = (
    "Choose a model with a larger context, offer fewer tools with --tools, or ask for less at once. "
    "For Ollama raise OLLAMA_CONTEXT_LENGTH (num_ctx)."
)
"""Advice for a conversation that does not fit even when it is shortened."""
LARGER_BODY = (
    "The service, or a proxy before it, limits the bytes of a request: raise that (nginx: client_max_body_size), ask "
    "for less at once, or begin a new conversation with %agent new."
)
"""Advice for a request that has too many bytes even without its pictures."""
_CODES = frozenset(
    {
        "context_length_exceeded",
        "exceed_context_size_error",
        "context_exceeded",
        "model_context_window_exceeded",
    }
)
_TOO_LARGE = 413
_TOO_LARGE_WORDS = re.compile(
    r"(?i)(?:payload|body|entity|request)(?: size)? (?:is )?too large|(?:payload|body) size exceeds"
    r"|maximum request body"
)
"""Phrases of nginx, Express, Starlette, aiohttp, Vertex AI and Azure."""
_WORDS = re.compile(
    r"(?i)context (?:length|window|size)|context limit|maximum context|prompt is too long|prompt too long"
    r"|input is too long|input token count|(?:maximum|max) (?:prompt|input|model) length"
    r"|too large for model with|exceeded model token limit|too many input tokens|reduce the length of the"
)
_OTHERWISE = re.compile(r"(?i)rate.?limit|per min|quota|too many requests")
"""Wording of rate limits. A request that exceeds a key's limit per minute is not too long for the model."""

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
"""The range of numbers that may be a model's context in tokens."""


_READ = 2_000
"""The most characters of a message that are searched."""


@dataclass(frozen=True, slots=True)
class TooLong:
    """The numbers in a refusal, as far as it has them."""

    size: int | None
    """Tokens of the request, including the reserved answer if the service counts it."""
    limit: int | None
    """Tokens that the model takes."""


def too_long(status: int | None, code: str, detail: str, *, structured: bool) -> TooLong | None:
    """The refusal's numbers, or `None` if it has another reason. Only the service's own error, which is `structured`,
    is believed about its numbers."""
    detail = detail[:_READ]
    if status not in (None, 400, _TOO_LARGE, 422, 500) or _OTHERWISE.search(detail):
        return None
    if code not in _CODES and not _WORDS.search(detail):
        return None
    if not structured:
        return TooLong(None, None)
    return TooLong(size=_number(_SIZES, detail), limit=_number(_LIMITS, detail))


def too_large(status: int | None, code: str, detail: str) -> bool:
    """Whether a request was refused for its bytes, by the service or by a proxy before it."""
    detail = detail[:_READ]
    if _OTHERWISE.search(detail):  # Groq answers 413 to what exceeds a key's tokens per minute
        return False
    if status == _TOO_LARGE or code == "request_too_large":
        return True
    return status in (400, 422, 500) and _TOO_LARGE_WORDS.search(detail) is not None


def _number(patterns: tuple[re.Pattern[str], ...], text: str) -> int | None:
    for pattern in patterns:
        found = pattern.search(text)
        if found is not None:
            number = int(re.sub(r"[,_]", "", found["number"])[:12])
            return number if _LEAST <= number <= _MOST else None
    return None
