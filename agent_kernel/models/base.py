"""The interface of models to the agent loop: requests, and streams of deltas that end in one `ModelTurn`."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from itertools import takewhile
from typing import Any, Literal, Protocol, runtime_checkable

from agent_kernel.models.provider_items import ProviderItems
from agent_kernel.protocol.decisions import ScriptedDecision
from agent_kernel.protocol.vocabulary import DelayKind, Effort, FinishReason

WireMessage = dict[str, Any]
"""A message in OpenAI's chat format: `role`, `content`, and `tool_calls` or `tool_call_id`. Two fields are our own, and
each adapter translates them to its API: `images` of a user's or a tool's message (a list of `ImageRef` as dicts) and
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
    """A sentence for the user about something that the adapter did differently than asked."""

    content: str
    type: Literal["notice"] = "notice"


@dataclass(frozen=True, slots=True)
class Retraction:
    """The text of the turn so far is no part of its answer."""

    type: Literal["retraction"] = "retraction"


@dataclass(frozen=True, slots=True)
class Delay:
    """There is no answer yet: the model is asked again after `seconds`, or at once when somebody sets `hurry`; or it is
    slow, and has been silent for `seconds`. It is over with the next item that is no `Notice`."""

    kind: DelayKind
    seconds: float
    attempt: int
    """The number of the next try: 2 after the first one has failed."""
    tries: int | None
    """The most tries that there are; `None` where only the time is limited."""
    cause: str
    """What went wrong, as a sentence or in the service's words."""
    hurry: asyncio.Event = field(default_factory=asyncio.Event, repr=False, compare=False)
    type: Literal["delay"] = "delay"


@dataclass(frozen=True, slots=True)
class RequestedCall:
    """A call as the model wrote it. `arguments` is its raw JSON text, which may be malformed."""

    id: str
    """Empty if the server sent none; the loop makes one."""
    name: str
    arguments: str
    raw_name: str = ""
    """The name as the model wrote it, where the loop has found that it means the tool `name`."""


@dataclass(frozen=True, slots=True)
class TokenUsage:
    """Tokens of one turn. As in OpenAI's API, parts are included in the totals."""

    input_tokens: int = 0
    """The whole request, cached or not."""
    output_tokens: int = 0
    """The whole output, reasoning included."""
    cached_tokens: int = 0
    """The part of the input that was read from the provider's cache."""
    cache_write_tokens: int = 0
    """The part of the input that was written to the provider's cache."""
    reasoning_tokens: int = 0
    """The part of the output that is reasoning."""
    cost: Decimal | None = None
    """US dollars, if the service says what the turn costs."""


@dataclass(frozen=True, slots=True)
class ModelTurn:
    """A complete turn, the last item of a stream."""

    content: str
    reasoning: str = ""
    tool_calls: tuple[RequestedCall, ...] = ()
    finish_reason: FinishReason = "stop"
    usage: TokenUsage = field(default_factory=TokenUsage)
    provider: ProviderItems | None = None
    """Data that the provider wants back with the turn, such as reasoning and signatures."""
    failure: str = ""
    """Why the service says that this is no answer, as sentences: it was filtered, or the model refused."""
    type: Literal["turn"] = "turn"


ModelItem = TextDelta | ReasoningDelta | ToolCallDelta | Retraction | Notice | Delay | ModelTurn


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
    """The same for all requests of a conversation, for providers that use it to route to a warm cache."""


@dataclass(frozen=True, slots=True)
class ImageRef:
    """An image that a message refers to. Its bytes are in the log once, and in `ModelRequest.images`."""

    digest: str
    """SHA-256 of the bytes, in hexadecimal."""
    media_type: str
    """`image/png` or `image/jpeg`."""
    width: int
    height: int


LocalServer = Literal["Ollama", "llama.cpp", "LM Studio", "vLLM"]
"""Programs that run a model themselves, with no price."""


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """Properties of a model."""

    wire_name: str = ""
    """The model's name at its service."""
    base_url: str | None = None
    """The service's address; `None` for a recording or a Python object."""
    images: bool = False
    """Whether it takes images."""
    tools: bool = True
    context_tokens: int | None = None
    """The context size in tokens, for a request and its answer together; `None` if unknown."""
    context_is_learned: bool = False
    """Whether it was read in a refusal, so that it may be wrong, and is the service's to confirm."""
    server: LocalServer | None = None
    """The program that runs the model, if it says so; `None` for hosted services, proxies, and what is unknown."""
    reports_cost: bool = False
    """Whether the service has said what a turn costs."""
    stands_in: bool = False
    """Whether an agent outside stands in for the model: nothing is asked here, and nothing costs."""


class Clock:
    """Time, replaceable in tests (`agent_kernel.testing.VirtualClock`)."""

    def now(self) -> float:
        """Seconds since the Unix epoch."""
        return datetime.now(UTC).timestamp()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class Model(Protocol):
    @property
    def name(self) -> str:
        """The name for display: `gpt-5.2`, `demo`."""
        ...

    @property
    def facts(self) -> ModelFacts:
        """The model's properties. They may change while it is used, because some are learned from answers."""
        ...

    @property
    def recorded(self) -> bool:
        """Whether answers come from a recording, so that clients can say that no model is called."""
        ...

    def stream(self, request: ModelRequest) -> AsyncIterator[ModelItem]:
        """Stream one turn; the last item is its `ModelTurn`. Raises `ModelError`."""
        ...

    async def aclose(self) -> None: ...


@runtime_checkable
class RecordsDecisions(Protocol):
    """A model that writes a recording."""

    async def record_decision(self, decision: ScriptedDecision, *, prompt: str) -> None:
        """Add a decision of a person or a script, which is bound to its call by the digest. Called in the order of the
        calls, after their step. Raises `ModelError` if it can't be written."""
        ...


@runtime_checkable
class LearnsFacts(Protocol):
    """A model whose service may know more of it than anything else."""

    async def learn(self) -> None:
        """Ask the service, so that `facts` are known before a run begins. Takes a few seconds at most; raises
        nothing."""
        ...


class ClientModel:
    """Stands in for the model of a run that an agent outside, `name`, asked for: it asks for that one call. It keeps
    nothing, so a run goes on with another one after a restart."""

    recorded = False
    facts = ModelFacts(images=True, stands_in=True)

    def __init__(self, name: str, prompt: str, call: RequestedCall) -> None:
        """`prompt` is the run's: a conversation has many runs."""
        self.name = name
        self._prompt = prompt
        self._call = call

    def _begins(self, message: WireMessage) -> bool:
        return message["role"] == "user" and text_of(message).startswith(self._prompt)

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelItem]:
        since = takewhile(lambda message: not self._begins(message), reversed(request.messages))
        if any(message["role"] != "user" for message in since):  # it is asked again after a restart, or a message
            yield ModelTurn(content=f"The result is for {self.name}.")
        else:
            yield ModelTurn(content="", tool_calls=(self._call,))

    async def aclose(self) -> None:
        pass


def text_of(message: WireMessage) -> str:
    """The text of a message, whose content may be a list of parts."""
    content = message.get("content")
    if isinstance(content, list):
        return "".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return content if isinstance(content, str) else ""


def facts_of(model: Model) -> ModelFacts:
    """The model's facts; empty ones for a user's object without `facts`."""
    facts = getattr(model, "facts", None)
    return facts if isinstance(facts, ModelFacts) else ModelFacts()


def asks_nobody(model: Model) -> bool:
    """Whether no service is asked, so that turns have no tokens and cost nothing."""
    return model.recorded or facts_of(model).stands_in


CONTEXT_OPEN = "\n\n<notebook_context>\n"
CONTEXT_CLOSE = "\n</notebook_context>"
"""Delimiters of the notebook's summary that is appended to a prompt."""
SUMMARY_OPEN = "<conversation_summary>\n"
SUMMARY_CLOSE = "\n</conversation_summary>"
"""Delimiters of the summary that replaces older messages; it is appended to a user's message."""
