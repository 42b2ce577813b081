"""What the loop asks of a model: a stream of deltas that ends in one `ModelTurn`."""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from agent_kernel.models.provider_items import ProviderItems
from agent_kernel.protocol.vocabulary import Effort, FinishReason

WireMessage = dict[str, Any]
"""A message in OpenAI's chat format: `role`, `content`, and `tool_calls` or `tool_call_id`. Plain dicts, because
message objects cost 26 times as much to load (reference figures in ARCHITECTURE.md). Two fields are our own, and each
adapter makes of them what its API has: `images` of a user's or a tool's message (a list of `ImageRef` as dicts) and
`provider` of an assistant's (`ProviderItems` as a dict)."""

IMAGES = "images"
PROVIDER = "provider"
"""The names of those fields."""


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
class Notice:
    """Something that the adapter did differently from what was asked, in a sentence for the user."""

    content: str
    type: Literal["notice"] = "notice"


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
    """Tokens of one turn. What is part of another figure is counted in it too, as OpenAI does."""

    input_tokens: int = 0
    """All of the request, from a cache or not."""
    output_tokens: int = 0
    """All that the model wrote, its reasoning included."""
    cached_tokens: int = 0
    """Of the input: read from the provider's cache."""
    cache_write_tokens: int = 0
    """Of the input: written to the provider's cache."""
    reasoning_tokens: int = 0
    """Of the output."""


@dataclass(frozen=True, slots=True)
class ModelTurn:
    """The whole turn, the last item of a stream."""

    content: str
    reasoning: str = ""
    tool_calls: tuple[RequestedCall, ...] = ()
    finish_reason: FinishReason = "stop"
    usage: TokenUsage = field(default_factory=TokenUsage)
    provider: ProviderItems | None = None
    """What the provider wants back with the turn and only it can read: reasoning, signatures."""
    paused: bool = False
    """Whether the service goes on with it when it gets it back. `HttpModel` sees to that."""
    type: Literal["turn"] = "turn"


ModelItem = TextDelta | ReasoningDelta | ToolCallDelta | Notice | ModelTurn


@dataclass(frozen=True, slots=True)
class ModelRequest:
    messages: Sequence[WireMessage]
    tools: Sequence[dict[str, Any]] = ()
    """In OpenAI's chat format: `{"type": "function", "function": {name, description, parameters}}`."""
    effort: Effort | None = None
    """How much the model should reason; `None` leaves it to the model."""
    images: Mapping[str, str] = field(default_factory=dict)
    """The images that the messages refer to: digest -> base64."""
    cache_key: str = ""
    """The same for all requests of one conversation, for providers that route by it to a warm cache."""


@dataclass(frozen=True, slots=True)
class ImageRef:
    """An image that a message refers to. Its bytes are in the log once, and in `ModelRequest.images`."""

    digest: str
    """SHA-256 of the bytes, in hexadecimal."""
    media_type: str
    """`image/png` or `image/jpeg`."""
    width: int
    height: int


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """What is known of a model beside its name."""

    wire_name: str = ""
    """What its service calls it."""
    base_url: str | None = None
    """Its service; `None` where none is asked: a recording, an object of this process."""
    images: bool = False
    """Whether it takes images."""
    tools: bool = True
    context_tokens: int | None = None
    """How long a request and its answer may be together; `None` where nobody said."""


class Model(Protocol):
    @property
    def name(self) -> str:
        """What a header shows: `gpt-5.2`, `demo`."""
        ...

    @property
    def facts(self) -> ModelFacts:
        """May change while the model is used: a service's own word is learned when it is asked."""
        ...

    @property
    def recorded(self) -> bool:
        """True for a cassette: clients say that no model is called."""
        ...

    def stream(self, request: ModelRequest) -> AsyncIterator[ModelItem]:
        """Stream one turn; the last item is its `ModelTurn`. Raises `ModelError`."""
        ...

    async def aclose(self) -> None: ...


def facts_of(model: Model) -> ModelFacts:
    """What is known of a model; nothing of a user's own object that says nothing of itself."""
    facts = getattr(model, "facts", None)
    return facts if isinstance(facts, ModelFacts) else ModelFacts()


CONTEXT_OPEN = "\n\n<notebook_context>\n"
CONTEXT_CLOSE = "\n</notebook_context>"
"""Around what the loop appends to a prompt about the notebook. A cassette ignores all from `CONTEXT_OPEN` on."""
SUMMARY_OPEN = "<conversation_summary>\n"
SUMMARY_CLOSE = "\n</conversation_summary>"
"""Around the summary that stands in for what was said before a message of the user, at its end."""
