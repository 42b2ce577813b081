"""Requests of the server extension to a kernel, and their replies. Both ends use these models.

Requests go over the control channel, which answers while the kernel's main thread is busy; they are discriminated by
`op`. `kernel_events` has the other direction. A kernel runs a user's code, so the server validates everything that
comes from it, within the bounds stated here.
"""

import functools
from collections.abc import Mapping
from types import GenericAlias
from typing import TYPE_CHECKING, Annotated, Any, Generic, Literal, TypeVar, cast, get_args

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from agent_kernel.protocol.decisions import MOST_DECISIONS, ScriptedDecision
from agent_kernel.protocol.runs import RunResult
from agent_kernel.protocol.tools import ApprovedCall, FileCard, Outcome, ToolDeclaration, ToolVerdict
from agent_kernel.protocol.views import BudgetLimits, ErrorView, OutputView, Place, PolicyView, RunView, Usage
from agent_kernel.protocol.vocabulary import ChangeState, Effort, PolicyMode, StopCause

MOST_RULES, MOST_RULE_CHARACTERS = 200, 10_000
"""Bounds of a notebook's own rules, all of which a run's header shows."""
MOST_REPLACED = 100
"""The most earlier runs of a cell that a run may replace."""
MOST_CELLS_BEFORE = 20
MOST_CHANGES = 200
FOLDER_OPEN = ", in the folder "
VARIABLES_OPEN = "The user's variables:\n"
CELLS_OPEN = "The cells that were run last:\n"
"""Beginnings of parts of the notebook's summary, as the model reads it: recordings compare the variables alone."""

CellId = Annotated[str, Field(max_length=200)]
Identifier = Annotated[str, Field(pattern=r"^[A-Za-z0-9_.:-]{1,200}$")]
"""An id from a kernel. Its characters are restricted because it goes into URLs, frames and the server's log."""


class KernelMessage(BaseModel):
    # `hide_input_in_errors`: the server logs refused messages without their content, which may be a user's input.
    # `defer_build`: a kernel imports this module at `%load_ext`, which has to be fast.
    model_config = ConfigDict(frozen=True, extra="ignore", hide_input_in_errors=True, defer_build=True)


ReplyT = TypeVar("ReplyT", bound="Reply")


def type_argument(message: type[BaseModel]) -> Any:
    """The type argument with which a subclass of a generic model is declared."""
    return get_args(message.__orig_bases__[0])[0]  # type: ignore[attr-defined]


# Replies


class Reply(KernelMessage):
    ok: Literal[True] = True


class Refused(KernelMessage):
    """Replaces any reply if the kernel could not carry out the request."""

    ok: Literal[False] = False
    error: str = "The kernel refused a request."


class Done(Reply):
    """The request was carried out; there is no other result."""


class RunDeclaration(KernelMessage):
    """A run as its cell declared it. The server validates the budgets as well."""

    run_id: Identifier
    conversation_id: Identifier
    prompt: str
    model: str | None = None
    effort: Effort | None = None
    policy: PolicyMode | None = None
    rules: tuple[Annotated[str, Field(max_length=MOST_RULE_CHARACTERS)], ...] = Field(default=(), max_length=MOST_RULES)
    system: str | None = None
    budget: BudgetLimits = Field(default_factory=BudgetLimits)
    conversation_budget: BudgetLimits = Field(default_factory=BudgetLimits)
    tools: tuple[ToolDeclaration, ...] = ()
    script: tuple[ScriptedDecision, ...] = Field(default=(), max_length=MOST_DECISIONS)
    widget_model_id: str | None = None
    replaces: tuple[Identifier, ...] = Field(default=(), max_length=MOST_REPLACED)
    continues: int | None = Field(default=None, ge=0)
    cell_id: CellId | None = None
    cells_before: tuple[CellId, ...] = Field(default=(), max_length=MOST_CELLS_BEFORE)
    """The ids of cells that the same page has run, the last first. They are in the same notebook as this cell, which
    may not be saved yet."""
    prompt_in_cell: bool = False
    stop: StopCause | None = None
    """Set if the kernel has already asked for the run to be stopped."""


class Declared(Reply):
    declaration: RunDeclaration


class Deposited(Reply):
    needs_await: bool = False
    """Whether the call has to be claimed by code that awaits (`take_code`)."""


class InterruptSent(Reply):
    sent: bool = False
    """Whether the call was interrupted, or withdrawn before it began."""


CallPhase = Literal["deposited", "running", "done", "unknown"]
"""The state of a call in the kernel: waiting for the main thread, running, ended, or not known."""


class Collected(Reply):
    """A call's outputs from an index on, and its outcome once it has ended."""

    state: CallPhase
    outputs: tuple[OutputView, ...] = ()
    outcome: Outcome | None = None


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


class EnvironmentDescribed(Reply):
    text: str = ""


# Requests


class Request(KernelMessage, Generic[ReplyT]):
    """A request, with the type of its reply."""

    if not TYPE_CHECKING:
        # pydantic would make a model for each type of reply, which `%load_ext` has no time for.
        __class_getitem__ = classmethod(GenericAlias)

    @classmethod
    def reply_type(cls) -> type[ReplyT]:
        return cast("type[ReplyT]", type_argument(cls))


class DeclareRun(Request[Declared]):
    op: Literal["declare"] = "declare"
    run_id: str


class UpdateRun(Request[Done]):
    """Sent when the state of a run changes."""

    op: Literal["state"] = "state"
    run: RunView


class FinishRun(Request[Done]):
    """Sent when a run has ended."""

    op: Literal["finish"] = "finish"
    result: RunResult


class ResumeRun(Request[Done]):
    """Sent when a run that had ended is tried again."""

    op: Literal["again"] = "again"
    run_id: str


class ExecuteCall(Request[Deposited]):
    """Deposits an approved call. Idempotent. On the shell channel the main thread then claims and runs it."""

    op: Literal["call"] = "call"
    call: ApprovedCall
    run_id: str | None = None
    """The run whose tools are meant."""
    received: tuple[str, ...] = ()
    """Other calls whose outcomes have arrived, so that the kernel need not keep them."""


class InterruptCall(Request[InterruptSent]):
    """Interrupts the call if it is running, or withdraws it if it has not begun."""

    op: Literal["interrupt"] = "interrupt"
    approval_id: str


class CollectCall(Request[Collected]):
    op: Literal["collect"] = "collect"
    approval_id: str
    after_index: int = Field(default=0, ge=0)


class LocateCall(Request[WaitingBehind]):
    op: Literal["waiting"] = "waiting"
    approval_id: str


class UndoCall(Request[Undone]):
    """Restores the file that a call replaced."""

    op: Literal["undo"] = "undo"
    approval_id: str


class GiveVerdict(Request[VerdictGiven]):
    """Asks for the tool's own verdict on a call."""

    op: Literal["verdict"] = "verdict"
    tool_name: str
    arguments_json: str
    run_id: str | None = None


class PreviewCall(Request[Previewed]):
    """Describes the file change that a call would make."""

    op: Literal["preview"] = "preview"
    tool_name: str
    arguments_json: str
    place: Place | None = None


class ListChanges(Request[KeptChanges]):
    op: Literal["changes"] = "changes"


class ReadPicture(Request[PictureRead]):
    """Reads a picture that a prompt names."""

    op: Literal["picture"] = "picture"
    path: str
    run_id: str | None = None
    notebook_path: str | None = None


class DescribeEnvironment(Request[EnvironmentDescribed]):
    op: Literal["environment"] = "environment"
    notebook_path: str | None = None


class Serve(Request[Done]):
    """Tells a kernel behind a gateway that this server serves it, which its environment can't say."""

    op: Literal["serve"] = "serve"


class AnswerQuestion(Request[Done]):
    op: Literal["answer"] = "answer"
    question_id: str
    answer: dict[str, Any] | None = None
    """The answer, of the type that belongs to the question; `None` if it was refused."""
    refusal: str | None = None


RunRequest = DeclareRun | UpdateRun | FinishRun | ResumeRun
CallRequest = ExecuteCall | InterruptCall | CollectCall | LocateCall
ToolRequest = GiveVerdict | PreviewCall | UndoCall | ListChanges
KernelRequest = ReadPicture | DescribeEnvironment | Serve | AnswerQuestion
AnyRequest = RunRequest | CallRequest | ToolRequest | KernelRequest


# Reading and making messages


@functools.cache
def _requests() -> Mapping[str, type[AnyRequest]]:
    return {request.model_fields["op"].default: request for request in get_args(AnyRequest)}


@functools.cache
def _any_request() -> TypeAdapter[AnyRequest]:
    return TypeAdapter(Annotated[AnyRequest, Field(discriminator="op")])


def read_request(content: dict[str, Any]) -> AnyRequest:
    """Raises `ValidationError`. Only the model of this request is built: building all of them takes longer than the
    rest of a first prompt's way to the server."""
    known = _requests().get(content["op"]) if isinstance(content.get("op"), str) else None
    return known.model_validate(content) if known is not None else _any_request().validate_python(content)


def read_reply(content: dict[str, Any], reply_type: type[ReplyT]) -> ReplyT | Refused:
    """Raises `ValidationError`."""
    return reply_type.model_validate(content) if content.get("ok") is True else Refused.model_validate(content)


def content_of(message: KernelMessage) -> dict[str, Any]:
    """Encode a message for the wire."""
    return message.model_dump(mode="json")


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
