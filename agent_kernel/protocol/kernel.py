"""Requests of the server extension to a kernel, and their replies. Both ends use these models.

Requests go over the control channel, which answers while the kernel's main thread is busy; they are discriminated by
`op`. Those that a first prompt waits for are in `first_prompt`, the other direction in `kernel_events`. A kernel runs a
user's code, so the server validates everything that comes from it, within the bounds stated here.
"""

import functools
from collections.abc import Mapping
from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from agent_kernel.protocol.bounds import Identifier
from agent_kernel.protocol.calls import ApprovedCall, Place, ToolVerdict
from agent_kernel.protocol.file_cards import FileCard
from agent_kernel.protocol.first_prompt import (
    Done,
    Refused,
    ReplyT,
    Request,
    RunDeclaration,
)
from agent_kernel.protocol.runs import RunResult
from agent_kernel.protocol.views import ErrorView, PolicyView, RunView, Usage
from agent_kernel.protocol.vocabulary import CallPhase, ChangeState, ExecutionStatus

MOST_CHANGES = 200


class KernelMessage(BaseModel):
    # `hide_input_in_errors`: the server logs refused messages without their content, which may be a user's input.
    # `defer_build`: most kernels use few of these models.
    model_config = ConfigDict(frozen=True, extra="ignore", hide_input_in_errors=True, defer_build=True)


# Replies


class Reply(KernelMessage):
    ok: Literal[True] = True


class CallEnd(KernelMessage):
    """How a call has ended. Its outputs are those of any execution."""

    status: ExecutionStatus
    text: str = ""
    """For the model, after what the call has put out; where `is_whole` is set, in its place."""
    is_whole: bool = False
    undo: str | None = Field(default=None, max_length=40)
    """As in `Outcome`."""


class InterruptSent(Reply):
    sent: bool = False
    """Whether the call was interrupted, or withdrawn before it began."""


class Collected(Reply):
    """How far a call is, and its end once it has one."""

    state: CallPhase
    end: CallEnd | None = None


class WaitingBehind(Reply):
    cell: int | None = None
    """The execution count of the cell for which the call waits."""


class Undone(Reply):
    refusal: str | None = None
    """Why the file was not restored."""


class VerdictGiven(Reply):
    verdict: ToolVerdict


class Previewed(Reply):
    card: FileCard | None = None


class KeptChange(KernelMessage):
    approval_id: Identifier
    state: ChangeState


class KeptChanges(Reply):
    """The file changes that the kernel can undo, or has undone."""

    changes: tuple[KeptChange, ...] = Field(default=(), max_length=MOST_CHANGES)


class PictureRead(Reply):
    data: str = ""
    """The picture in base64."""
    refusal: str | None = None
    """Why there is no picture."""


# Requests


class UpdateRun(KernelMessage, Request[Done]):
    """Sent when the state of a run changes."""

    op: Literal["state"] = "state"
    run: RunView


class FinishRun(KernelMessage, Request[Done]):
    """Sent when a run has ended."""

    op: Literal["finish"] = "finish"
    result: RunResult


class ResumeRun(KernelMessage, Request[Done]):
    """Sent when a run that had ended is tried again."""

    op: Literal["again"] = "again"
    run_id: str


class OfferCall(KernelMessage, Request[Done]):
    """Offers an approved call to a cell that waits for a run. Idempotent. The execution that runs it elsewhere has this
    in its metadata."""

    op: Literal["call"] = "call"
    call: ApprovedCall
    run_id: str | None = None
    """The run whose tools are meant."""
    message_id: str = ""
    """The id of that execution's message, which the outputs name as their parent."""


class InterruptCall(KernelMessage, Request[InterruptSent]):
    """Interrupts the call if it is running, or withdraws it if it has not begun."""

    op: Literal["interrupt"] = "interrupt"
    approval_id: str


class CollectCall(KernelMessage, Request[Collected]):
    op: Literal["collect"] = "collect"
    approval_id: str


class LocateCall(KernelMessage, Request[WaitingBehind]):
    op: Literal["waiting"] = "waiting"
    approval_id: str


class UndoCall(KernelMessage, Request[Undone]):
    """Restores the file that a call replaced."""

    op: Literal["undo"] = "undo"
    approval_id: str


class GiveVerdict(KernelMessage, Request[VerdictGiven]):
    """Asks for the tool's own verdict on a call."""

    op: Literal["verdict"] = "verdict"
    tool_name: str
    arguments_json: str
    run_id: str | None = None


class PreviewCall(KernelMessage, Request[Previewed]):
    """Describes the file change that a call would make."""

    op: Literal["preview"] = "preview"
    tool_name: str
    arguments_json: str
    place: Place | None = None


class ListChanges(KernelMessage, Request[KeptChanges]):
    op: Literal["changes"] = "changes"


class ReadPicture(KernelMessage, Request[PictureRead]):
    """Reads a picture that a prompt names."""

    op: Literal["picture"] = "picture"
    path: str
    run_id: str | None = None
    notebook_path: str | None = None


class AnswerQuestion(KernelMessage, Request[Done]):
    op: Literal["answer"] = "answer"
    question_id: str
    answer: dict[str, Any] | None = None
    """The answer, of the type that belongs to the question; `None` if it was refused."""
    refusal: str | None = None


RunRequest = UpdateRun | FinishRun | ResumeRun
CallRequest = OfferCall | InterruptCall | CollectCall | LocateCall
ToolRequest = GiveVerdict | PreviewCall | UndoCall | ListChanges
KernelRequest = ReadPicture | AnswerQuestion
AnyRequest = RunRequest | CallRequest | ToolRequest | KernelRequest


# Reading


@functools.cache
def _requests() -> Mapping[str, type[AnyRequest]]:
    return {request.model_fields["op"].default: request for request in get_args(AnyRequest)}


@functools.cache
def _any_request() -> TypeAdapter[AnyRequest]:
    return TypeAdapter(Annotated[AnyRequest, Field(discriminator="op")])


def read_request(content: dict[str, Any]) -> AnyRequest:
    """Raises `ValidationError`. Only the model of this request is built: building all of them takes longer than a call
    in an idle kernel."""
    known = _requests().get(content["op"]) if isinstance(content.get("op"), str) else None
    return known.model_validate(content) if known is not None else _any_request().validate_python(content)


@functools.cache
def _reader(message_type: type[Any]) -> TypeAdapter[Any]:
    # pydantic takes settings for a union, and none for a dataclass by itself.
    either: Any = message_type | None
    return TypeAdapter(either, config=ConfigDict(hide_input_in_errors=True))


def read_reply(content: dict[str, Any], reply_type: type[ReplyT]) -> ReplyT | Refused:
    """Raises `ValidationError`."""
    expected: Any = reply_type if content.get("ok") is True else Refused
    found: ReplyT | Refused = _reader(expected).validate_python(content)
    return found


def failed_run(declaration: RunDeclaration, reason: str) -> RunResult:
    """The message for the end of a run that could not start."""
    from agent_kernel.protocol.events import utc_now  # the models of all events, which a kernel seldom needs

    now = utc_now()
    run = RunView(
        run_id=declaration.run_id,
        conversation_id=declaration.conversation_id,
        prompt=declaration.prompt,
        status="error",
        model=declaration.model or "",
        effort=declaration.effort,
        recorded=False,
        policy=PolicyView(mode=declaration.policy or "ask"),
        usage=Usage(),
        budget=declaration.budget,
        started_at=now,
        ended_at=now,
        error=ErrorView(code="INTERNAL_ERROR", message=reason),
    )
    return RunResult(run=run, text="", messages=[], tool_calls=[])
