"""A client's frames, read as commands, and the runtime's errors, as answers to the client."""

from dataclasses import dataclass, field
from typing import Any, Literal

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
    UndoRefused,
)
from agent_kernel.protocol.commands import MAX_FRAME_BYTES, ClientCommand, client_command_adapter
from agent_kernel.protocol.json_once import loads_once
from agent_kernel.protocol.vocabulary import ErrorCode

COMMAND_TYPES = frozenset(
    {
        "message",
        "approval_response",
        "tool_result",
        "tool_cancel",
        "tool_retry",
        "tool_continue",
        "tool_undo",
        "rule_remove",
        "policy",
        "budget",
        "run_retry",
        "cancel",
        "resume",
        "shown",
        "ping",
    }
)


class InvalidFrame(Exception):
    """A frame that is no command; the message says why."""


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer to one connection. It is not an event of the conversation, so it is not logged."""

    code: ErrorCode | Literal["PONG"]
    message: str = ""
    tool_call_id: str | None = None
    details: dict[str, Any] = field(default_factory=dict)


def parse_frame(message: str | bytes) -> ClientCommand | None:
    """The command in a frame; `None` for a type that this version does not know. Raises `InvalidFrame`."""
    data = message.encode() if isinstance(message, str) else message
    if len(data) > MAX_FRAME_BYTES:
        raise InvalidFrame(f"A frame may hold {MAX_FRAME_BYTES} bytes; this one holds {len(data)}.")
    try:
        frame = loads_once(data)
    except ValueError as error:
        raise InvalidFrame(f"A frame is a JSON object: {error}") from error
    if not isinstance(frame, dict) or not isinstance(frame.get("type"), str):
        raise InvalidFrame("A frame is a JSON object with a text `type`.")
    if frame["type"] not in COMMAND_TYPES:
        return None
    try:
        return client_command_adapter.validate_python(frame)
    except ValidationError as error:
        fault = error.errors(include_url=False, include_context=False, include_input=False)[0]
        name = ".".join(str(part) for part in fault["loc"])
        raise InvalidFrame(f"{name}: {fault['msg']}") from error


def reply_for(error: Exception) -> Reply:
    """What a client is told of an error. One that nobody foresaw keeps its details in the server's log."""
    if isinstance(error, AlreadyDecided):
        first = error.first
        return Reply("CONFLICT", str(error), first.get("tool_call_id"), first)
    if isinstance(error, UndoRefused):
        return Reply("CONFLICT", str(error), error.tool_call_id)
    if isinstance(error, DigestMismatch | IllegalTransition):
        return Reply("CONFLICT", str(error))
    if isinstance(error, NotFound):
        return Reply("INVALID_FORMAT", str(error), details={"unknown": error.identifier})
    if isinstance(error, InvalidArguments):
        return Reply("INVALID_FORMAT", str(error))
    if isinstance(error, KernelGone):
        return Reply("KERNEL_DIED", str(error))
    if isinstance(error, LogUnavailable):
        return Reply("INTERNAL_ERROR", str(error))
    if isinstance(error, ConfigurationError):
        return Reply("LLM_ERROR", str(error))
    if isinstance(error, AgentKernelError):
        return Reply("TOOL_ERROR", str(error))
    return Reply("INTERNAL_ERROR", "The server failed at this command; its log says why.")
