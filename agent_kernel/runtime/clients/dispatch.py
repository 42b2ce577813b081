"""Commands of clients: read from frames, carried out, or refused. HTTP routes refuse from the same table."""

from dataclasses import dataclass, field
from typing import Any, Literal, assert_never

from pydantic import ValidationError

from agent_kernel.errors import (
    AgentKernelError,
    AlreadyDecided,
    ConfigurationError,
    DigestMismatch,
    IllegalTransition,
    InvalidArguments,
    KernelGone,
    LogUnavailable,
    NotFound,
    TooManyConversations,
    UndoRefused,
)
from agent_kernel.protocol.commands import (
    COMMAND_TYPES,
    MAX_FRAME_BYTES,
    ApprovalResponseCommand,
    BudgetCommand,
    CancelCommand,
    ClientCommand,
    Command,
    InstructionsCommand,
    MessageCommand,
    PingCommand,
    PolicyCommand,
    ResumeCommand,
    RuleRemoveCommand,
    RunRetryCommand,
    SendAwayCommand,
    ShownCommand,
    ToolCancelCommand,
    ToolContinueCommand,
    ToolResultCommand,
    ToolRetryCommand,
    ToolUndoCommand,
    TryNowCommand,
    client_command_adapter,
)
from agent_kernel.protocol.json_once import loads_once
from agent_kernel.protocol.vocabulary import BudgetLimits, ErrorCode
from agent_kernel.runtime.conversation import Conversation
from agent_kernel.runtime.runs.stop import Stop

_RunCommand = BudgetCommand | RunRetryCommand | TryNowCommand | CancelCommand
_CallCommand = ToolResultCommand | ToolCancelCommand | ToolRetryCommand | ToolContinueCommand | ToolUndoCommand


class InvalidFrame(Exception):
    """A frame that is no command; the message says why. `command_id` is the frame's, where that can be read."""

    def __init__(self, message: str, command_id: str | None = None) -> None:
        super().__init__(message)
        self.command_id = command_id


Right = Literal["read", "execute"]
"""To look at a conversation; to do more in it."""


class NotAllowed(Exception):
    def __init__(self, right: Right) -> None:
        super().__init__(
            "You may look at this conversation, but not act in it."
            if right == "execute"
            else "You may not look at this conversation any more."
        )


@dataclass(frozen=True, slots=True)
class ErrorReply:
    """Why what a client asked for was not done."""

    code: ErrorCode
    status: int
    """The HTTP status that says the same."""
    message: str
    tool_call_id: str | None = None
    details: dict[str, Any] = field(default_factory=dict)
    """The first decision, the field of a body that is invalid, or what is unknown."""


_CODES: tuple[tuple[type[Exception], ErrorCode, int], ...] = (
    (InvalidFrame, "INVALID_FORMAT", 400),
    (NotAllowed, "ACCESS_DENIED", 403),
    (NotFound, "INVALID_FORMAT", 404),
    (InvalidArguments, "INVALID_FORMAT", 400),
    (AlreadyDecided, "CONFLICT", 409),
    (UndoRefused, "CONFLICT", 409),
    (DigestMismatch, "CONFLICT", 409),
    (IllegalTransition, "CONFLICT", 409),
    (KernelGone, "KERNEL_DIED", 409),
    (TooManyConversations, "TOOL_ERROR", 429),
    (LogUnavailable, "INTERNAL_ERROR", 503),
    (ConfigurationError, "LLM_ERROR", 400),
    (AgentKernelError, "TOOL_ERROR", 500),
)
"""The first row that fits counts."""


_BROKE = (
    "This failed, and how far it came is not known: reload the page to see how things stand. The reason is in the "
    "output of the Jupyter server, or of the kernel where no server runs the agent."
)


def reply_for(error: Exception) -> ErrorReply:
    """The reply to a client for an error. One that was not foreseen keeps its details in the log of the process."""
    for kind, code, status in _CODES:
        if isinstance(error, kind):
            return ErrorReply(code, status, str(error), *_particulars(error))
    return ErrorReply("INTERNAL_ERROR", 500, _BROKE)


def _particulars(error: Exception) -> tuple[str | None, dict[str, Any]]:
    """The call that an error is about, and its details."""
    match error:
        case AlreadyDecided():
            return error.first.get("tool_call_id"), error.first
        case UndoRefused():
            return error.tool_call_id, {}
        case NotFound():
            return None, {"unknown": error.identifier}
        case InvalidArguments():
            return None, {"field": error.field}
        case ConfigurationError() if not isinstance(error, LogUnavailable):
            return None, {"field": "model"}
    return None, {}


def parse_frame(frame: str | bytes) -> ClientCommand | None:
    """The command in a frame; `None` for a type that this version does not know. Raises `InvalidFrame`."""
    data = frame.encode("utf-8", "surrogatepass") if isinstance(frame, str) else frame
    if len(data) > MAX_FRAME_BYTES:
        raise InvalidFrame(f"A frame may hold {MAX_FRAME_BYTES} bytes; this one holds {len(data)}.")
    try:
        values = loads_once(data)
    except ValueError as error:
        raise InvalidFrame(f"A frame is a JSON object: {error}") from error
    if not isinstance(values, dict) or not isinstance(values.get("type"), str):
        raise InvalidFrame("A frame is a JSON object with a text `type`.")
    if values["type"] not in COMMAND_TYPES:
        return None
    try:
        return client_command_adapter.validate_python(values)
    except ValidationError as error:
        fault = error.errors(include_url=False, include_context=False, include_input=False)[0]
        name = ".".join(str(part) for part in fault["loc"])
        raise InvalidFrame(f"{name}: {fault['msg']}", _id_of(values)) from error


def _id_of(values: dict[str, Any]) -> str | None:
    try:
        return Command.model_validate(values).id
    except ValidationError:
        return None


async def handle_command(command: ClientCommand, conversation: Conversation, person: str | None = None) -> None:
    """Do what a client asks. Raises what the runtime raises; then nothing has changed."""
    match command:
        case MessageCommand():
            await conversation.send_message(command.content, decided_by=person)
        case ApprovalResponseCommand():
            await conversation.route_decision(command.approval_id, command, decided_by=person)
        case ToolResultCommand() | ToolCancelCommand() | ToolRetryCommand() | ToolContinueCommand() | ToolUndoCommand():
            await _handle_call_command(command, conversation, person)
        case RuleRemoveCommand():
            await conversation.remove_rule(command.rule_id, decided_by=person)
        case SendAwayCommand():
            await conversation.send_client_away(decided_by=person)
        case PolicyCommand():
            await conversation.switch_policy(command.mode, decided_by=person, decide_waiting=command.decide_waiting)
        case InstructionsCommand():
            await conversation.switch_instructions(command.file, off=command.off)
        case BudgetCommand() | RunRetryCommand() | TryNowCommand() | CancelCommand():
            await _handle_run_command(command, conversation, person)
        case ResumeCommand() | ShownCommand() | PingCommand():
            return  # they are about the connection, and the session's own
        case _:
            assert_never(command)


async def _handle_run_command(command: _RunCommand, conversation: Conversation, person: str | None) -> None:
    match command:
        case BudgetCommand():
            add = BudgetLimits(**command.add.model_dump())
            await conversation.raise_budget(
                command.run_id, command.pause_id, add, without_usd=command.without_usd, decided_by=person
            )
        case RunRetryCommand():
            await conversation.retry_run(command.run_id)
        case TryNowCommand():
            await conversation.try_now(command.run_id)
        case CancelCommand():
            await conversation.cancel_run(command.run_id, Stop(decided_by=person))
        case _:
            assert_never(command)


async def _handle_call_command(command: _CallCommand, conversation: Conversation, person: str | None) -> None:
    match command:
        case ToolResultCommand():
            await conversation.tool_result(command.tool_call_id, command.output)
        case ToolCancelCommand():
            await conversation.cancel_call(command.tool_call_id, Stop(decided_by=person))
        case ToolRetryCommand():
            await conversation.retry_call(command.tool_call_id, outside=command.outside, decided_by=person)
        case ToolContinueCommand():
            await conversation.answer_unknown(command.tool_call_id, "continue", decided_by=person)
        case ToolUndoCommand():
            await conversation.undo_call(command.tool_call_id, redo=command.redo, decided_by=person)
        case _:
            assert_never(command)
