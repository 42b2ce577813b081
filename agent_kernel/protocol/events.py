"""Events that servers send, version 1. Each is discriminated by `type`; clients ignore unknown types."""

from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from agent_kernel.protocol.views import (
    ConversationView,
    ErrorView,
    OutputView,
    Preview,
    RuleOffer,
    RunView,
    ToolCallView,
    ToolView,
    Usage,
    Warning,
)
from agent_kernel.protocol.vocabulary import (
    PROTOCOL_VERSION,
    CallState,
    DecidedBy,
    ErrorCode,
    FinishReason,
    OutcomeStatus,
    PolicyMode,
    Role,
    Scope,
    UnknownAnswer,
)


def utc_now(later: float = 0.0) -> str:
    """The current time in UTC, or that in so many seconds, as ISO 8601 with milliseconds and `Z`."""
    return (datetime.now(UTC) + timedelta(seconds=later)).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class Event(BaseModel):
    """The envelope. `seq` rises strictly within a conversation; the log sets it when the event is committed."""

    model_config = ConfigDict(frozen=True, defer_build=True)

    seq: int = 0
    conversation_id: str = ""
    run_id: str | None = None
    timestamp: str = Field(default_factory=utc_now)


class Reply(Event):
    """An event that may answer a command. If it does, it is not logged, and its `seq` is the last logged event's."""

    command_id: str | None = None
    """The `id` of the command that it answers, if it answers one that has an id."""


class SessionEvent(Reply):
    """First on connect, and in place of missed events if there are too many of them. It is not logged."""

    type: Literal["session"] = "session"
    protocol: int = PROTOCOL_VERSION
    tools: list[ToolView]
    snapshot: ConversationView
    pending: list[ToolCallView]
    last_seq: int
    resume_from: int = 0
    """From where a client that has only the snapshot resumes, for what it lacks: such as half of an answer."""


class MessageEvent(Event):
    type: Literal["message"] = "message"
    message_id: str
    role: Role
    content: str


class TokenEvent(Event):
    type: Literal["token"] = "token"
    message_id: str
    content: str


class ReasoningEvent(Event):
    type: Literal["reasoning"] = "reasoning"
    message_id: str
    content: str


class RunEvent(Event):
    """The state of a run, sent whenever it changes: queued, started, paused, delayed, policy, notices, ended."""

    type: Literal["run"] = "run"
    run: RunView


class UsageEvent(Event):
    """The run's usage so far, after each turn of the model that asks for calls. The next `run` event contains it as
    well. A turn without calls is the last; `complete` has its usage."""

    type: Literal["usage"] = "usage"
    usage: Usage


class PolicyEvent(Event):
    """A person has switched the policy. A run that is under way also sends a `run` event."""

    type: Literal["policy"] = "policy"
    before: PolicyMode
    mode: PolicyMode
    decided_by: str | None = None
    decide_waiting: bool = False
    """Whether calls that waited, and that the new mode allows, were approved with it."""


class ToolStateEvent(Event):
    """The state of a call that has no card yet, because the model is still writing it, or that waits for the kernel."""

    type: Literal["tool_state"] = "tool_state"
    tool_call_id: str
    tool_name: str
    tool_input: str | None = None
    state: CallState
    waiting_behind: int | None = None
    """While `executing`: the execution count of the user's cell that the kernel runs first; `None` once it runs."""


class ApprovalRequestEvent(Event):
    type: Literal["approval_request"] = "approval_request"
    approval_id: str
    tool_call_id: str
    tool_name: str
    tool_input: str
    digest: str
    warnings: list[Warning] = Field(default_factory=list)
    preview: Preview | None = None
    scopes: list[Scope] = Field(default_factory=list)
    rules: list[RuleOffer] = Field(default_factory=list)
    """The rules that Always allow can save, from narrow to wide. May be empty."""
    expires_at: str | None = None


class ApprovalResponseEvent(Event):
    type: Literal["approval_response"] = "approval_response"
    approval_id: str
    tool_call_id: str
    approved: bool
    reason: str | None = None
    edited: bool = False
    by: DecidedBy
    decided_by: str | None = None


class ToolStartEvent(Event):
    type: Literal["tool_start"] = "tool_start"
    tool_call_id: str
    tool_name: str
    tool_input: str
    preview: Preview | None = None
    """The diff of the file that the call changes. It was not sent before if no approval was asked for."""


class ToolOutputEvent(Event):
    type: Literal["tool_output"] = "tool_output"
    tool_call_id: str
    index: int
    """The position among the call's outputs: from 0, without gaps."""
    output: OutputView


class ToolCompleteEvent(Event):
    type: Literal["tool_complete"] = "tool_complete"
    tool_call_id: str
    tool_name: str
    tool_result: str
    status: OutcomeStatus
    duration_ms: int | None = None
    truncated: bool = False
    output_file: str | None = None
    state: CallState
    """The exact state, of which `status` is a coarser form."""
    reason: str | None = None
    undo: str | None = None
    """Set if `tool_undo` can restore the file that the call replaced: when that file was last changed, or an empty text
    if there was none."""
    cached_at: str | None = None
    """Set if the call did not run, because the outcome of an earlier call was given again: the time of that outcome."""


class ToolSeenEvent(Event):
    """The model was given pictures that a call displayed, and has answered."""

    type: Literal["tool_seen"] = "tool_seen"
    tool_call_id: str
    images: int
    """The number of pictures."""


class ToolUndoneEvent(Event):
    """A person restored the file or cell that a call had changed, or changed it again."""

    type: Literal["tool_undone"] = "tool_undone"
    tool_call_id: str
    redo: bool = False
    """The change is there again."""
    decided_by: str | None = None


class ToolAnsweredEvent(Event):
    """A person has answered for a call whose outcome is unknown: go on, or have the model ask for it again."""

    type: Literal["tool_answered"] = "tool_answered"
    tool_call_id: str
    answer: UnknownAnswer
    decided_by: str | None = None


class ErrorEvent(Reply):
    """A failure in a run, which is logged, or the reason why a command was not carried out."""

    type: Literal["error"] = "error"
    code: ErrorCode
    message: str
    tool_call_id: str | None = None
    details: dict[str, Any] = Field(default_factory=dict)


class CompleteEvent(Event):
    type: Literal["complete"] = "complete"
    message_id: str | None
    finish_reason: FinishReason
    usage: Usage
    error: ErrorView | None = None


class PongEvent(Reply):
    type: Literal["pong"] = "pong"


class AckEvent(Reply):
    """A command was carried out. Sent only for commands with an `id`."""

    type: Literal["ack"] = "ack"


LoggedEvent = (
    MessageEvent
    | TokenEvent
    | ReasoningEvent
    | RunEvent
    | UsageEvent
    | PolicyEvent
    | ToolStateEvent
    | ApprovalRequestEvent
    | ApprovalResponseEvent
    | ToolStartEvent
    | ToolOutputEvent
    | ToolCompleteEvent
    | ToolSeenEvent
    | ToolUndoneEvent
    | ToolAnsweredEvent
    | ErrorEvent
    | CompleteEvent
)
ServerEvent = Annotated[SessionEvent | PongEvent | AckEvent | LoggedEvent, Field(discriminator="type")]

server_event_adapter: TypeAdapter[ServerEvent] = TypeAdapter(ServerEvent, config=ConfigDict(defer_build=True))
