"""What the AI SDK's `DefaultChatTransport` sends. Everything in it is untrusted; of the past only answers are read.

The arguments of calls that come back in `messages` are not modelled: they have lost integers beyond 2**53, and may have
been changed. The log's arguments run.
"""

from typing import Annotated, Any, Literal

from pydantic import Field

from agent_kernel.protocol.commands import Body
from agent_kernel.protocol.vocabulary import Effort, PolicyMode

CHAT_ID = r"^[A-Za-z0-9_-][A-Za-z0-9._:-]{0,127}$"
"""The ids that a chat may have. They stand in addresses."""
MESSAGE_ID = r"^[A-Za-z0-9._:-]{1,128}$"
TOOL_NAME = r"^[A-Za-z_][A-Za-z0-9_-]{0,63}$"
MOST_MESSAGES, MOST_PARTS, MOST_TOOLS = 10_000, 10_000, 64
REASON_CHARACTERS = 10_000


class SentApproval(Body):
    id: str = Field(max_length=200)
    approved: bool | None = Field(default=None, strict=True)
    reason: str | None = Field(default=None, max_length=REASON_CHARACTERS)


class SentPart(Body):
    """A part of a message. Fields that a type does not have are absent."""

    type: str = Field(max_length=200)
    text: str = ""
    state: str | None = Field(default=None, max_length=40)
    toolCallId: str | None = Field(default=None, max_length=1_000)  # noqa: N815 -- as it is on the wire
    approval: SentApproval | None = None
    output: Any = None
    errorText: str | None = None  # noqa: N815 -- the AI SDK's name
    url: str | None = None
    """Of a file: what it has, as a data URL."""
    mediaType: str | None = Field(default=None, max_length=200)  # noqa: N815 -- the AI SDK's name
    preliminary: bool | None = Field(default=None, strict=True)


class SentMessage(Body):
    id: str = Field(max_length=10_000)
    role: Literal["user", "assistant", "system"]
    parts: list[SentPart] = Field(default_factory=list, max_length=MOST_PARTS)

    @property
    def files(self) -> list[SentPart]:
        return [part for part in self.parts if part.type == "file"]

    @property
    def text(self) -> str:
        return "\n\n".join(part.text for part in self.parts if part.type == "text" and part.text)


class PageTool(Body):
    """A tool that the page runs itself, as assistant-ui sends it."""

    description: str = Field(default="", max_length=10_000)
    parameters: dict[str, Any] = Field(default_factory=lambda: {"type": "object", "properties": {}})


class ChatRequest(Body):
    """The body of `POST ai-sdk/chat`: the transport's own fields, and beside them those of its `body`."""

    id: Annotated[str, Field(pattern=CHAT_ID)]
    messages: list[SentMessage] = Field(min_length=1, max_length=MOST_MESSAGES)
    trigger: Literal["submit-message", "regenerate-message"] = "submit-message"
    messageId: str | None = Field(default=None, max_length=10_000)  # noqa: N815 -- the AI SDK's name

    kernel_id: str | None = Field(default=None, max_length=200)
    notebook_path: str | None = Field(default=None, max_length=4_096)
    model: str | None = Field(default=None, max_length=500)
    policy: PolicyMode | None = None
    effort: Effort | None = None
    tools: dict[Annotated[str, Field(pattern=TOOL_NAME)], PageTool] = Field(default_factory=dict, max_length=MOST_TOOLS)

    @property
    def says_more(self) -> bool:
        """Whether it has a message of the user, rather than answers, or the wish for another answer."""
        return self.target.role == "user" and self.trigger == "submit-message"

    @property
    def target(self) -> SentMessage:
        """The message that the request goes on with: the last, or an earlier answer of the model that is named."""
        for message in self.messages:
            if message.id == self.messageId and message.role == "assistant":
                return message
        return self.messages[-1]
