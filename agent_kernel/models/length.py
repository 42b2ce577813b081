"""Recognises refusals of requests that are too long, by status, code and wording.

Services agree neither on a status nor on a code, so the wording decides as well. The phrases are from documentation,
sources and issue trackers of OpenAI, Azure, Anthropic, Gemini, Mistral, xAI, Groq, OpenRouter,
Bedrock, Kimi, vLLM, SGLang, llama.cpp, Ollama, LM Studio.
"""

import re
import time
from collections.abc import Callable
from dataclasses import dataclass

from agent_kernel.models.base import LocalServer

LARGER: dict[LocalServer, str] = {
    "llama.cpp": "start llama-server with a larger -c (-c 16384)",
    "Ollama": "start Ollama with a larger OLLAMA_CONTEXT_LENGTH, or set num_ctx in the model's Modelfile",
    "vLLM": "start vLLM with a larger --max-model-len",
    "LM Studio": "load the model with a larger context in LM Studio",
}
"""What gives a model a larger context."""


def larger_context(server: LocalServer | None) -> str:
    """Advice for a conversation that does not fit even when it is shortened."""
    first = LARGER[server] if server is not None else "choose a model with a larger context"
    return (
        f"Ask for less at once, begin a new conversation with %agent new, offer fewer tools with --tools, or {first}."
    )


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
LEARNED_SECONDS = 3_600.0
"""How long a limit from a refusal is kept. A server may be started again with a larger context, and requests that are
shortened never show that."""
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


class ContextLimit:
    """What one model at one endpoint has shown of its context, in tokens. All conversations share it."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._named: int | None = None
        self._until = 0.0
        self._accepted = 0

    @property
    def learned(self) -> int | None:
        """The limit that the service named in a refusal, for an hour or until it accepts a longer request."""
        return self._named if self._clock() < self._until else None

    def refuse(self, limit: int | None) -> None:
        """A request was refused. A limit below what was accepted before is not believed."""
        if limit is not None and limit >= self._accepted:
            self._named, self._until = limit, self._clock() + LEARNED_SECONDS

    def accept(self, tokens: int) -> None:
        """A request of this length was answered."""
        self._accepted = max(self._accepted, tokens)
        if self._named is not None and self._named < tokens:
            self._named = None


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
