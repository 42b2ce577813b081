"""What the loop asks of a model: a stream of deltas that ends in one `ModelTurn`."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from agent_kernel.protocol.vocabulary import FinishReason

WireMessage = dict[str, Any]
"""A message in OpenAI's chat format: `role`, `content`, and `tool_calls` or `tool_call_id`. Plain dicts, because
message objects cost 26 times as much to load (reference figures in ARCHITECTURE.md)."""


@dataclass(frozen=True, slots=True)
class TextDelta:
    content: str
    type: Literal["text"] = "text"


@dataclass(frozen=True, slots=True)
class ReasoningDelta:
    content: str
    type: Literal["reasoning"] = "reasoning"


@dataclass(frozen=True, slots=True)
class ToolCallDelta:
    """The model has begun to write a call: its position in the turn and its name. Sent once per call."""

    index: int
    name: str
    id: str = ""
    """As in `RequestedCall`."""
    type: Literal["tool_call"] = "tool_call"


@dataclass(frozen=True, slots=True)
class RequestedCall:
    """A call as the model wrote it. `arguments` is its raw JSON text, which may be malformed."""

    id: str
    """Empty where the server sent none; the loop makes one."""
    name: str
    arguments: str
    extra_content: dict[str, Any] | None = None
    """What the server wants back with the call, as it was received: Gemini's thought signature. Without it Gemini 3
    refuses the next request."""


@dataclass(frozen=True, slots=True)
class TokenUsage:
    input_tokens: int = 0
    output_tokens: int = 0


@dataclass(frozen=True, slots=True)
class ModelTurn:
    """The whole turn, the last item of a stream."""

    content: str
    reasoning: str = ""
    tool_calls: tuple[RequestedCall, ...] = ()
    finish_reason: FinishReason = "stop"
    usage: TokenUsage = field(default_factory=TokenUsage)
    type: Literal["turn"] = "turn"


ModelItem = TextDelta | ReasoningDelta | ToolCallDelta | ModelTurn


@dataclass(frozen=True, slots=True)
class ModelRequest:
    messages: Sequence[WireMessage]
    tools: Sequence[dict[str, Any]] = ()
    """In OpenAI's format: `{"type": "function", "function": {name, description, parameters}}`."""


class Model(Protocol):
    @property
    def name(self) -> str:
        """What a header shows: `gpt-5.2`, `demo`."""
        ...

    @property
    def recorded(self) -> bool:
        """True for a cassette: faces say that no model is called."""
        ...

    def stream(self, request: ModelRequest) -> AsyncIterator[ModelItem]:
        """Stream one turn; the last item is its `ModelTurn`. Raises `ModelError`."""
        ...

    async def aclose(self) -> None: ...


CONTEXT_OPEN = "\n\n<notebook_context>\n"
CONTEXT_CLOSE = "\n</notebook_context>"
"""Around what the loop appends to a prompt about the notebook. A cassette ignores all from `CONTEXT_OPEN` on."""
