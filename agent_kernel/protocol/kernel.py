"""The wire between the server extension and a kernel: requests and their replies. Both ends use these models.

The server sends requests on the control channel, which answers while the kernel's main thread is busy; `op` tells them
apart. `kernel_events` has the other direction. A kernel is another process that runs a user's code, so the server
validates all that comes from it, and the bounds are stated here.
"""

import functools
from typing import Annotated, Any, Generic, Literal, TypeVar, cast

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from agent_kernel.protocol.events import utc_now
from agent_kernel.protocol.tools import FileCard, ToolDeclaration
from agent_kernel.protocol.views import (
    BudgetLimits,
    ErrorView,
    MessageView,
    OutputView,
    Place,
    PolicyView,
    RunView,
    ToolCallView,
    Usage,
)
from agent_kernel.protocol.vocabulary import Approval, ChangeState, Effort, ExecutionStatus, PolicyMode, StopCause

REQUEST_TYPE = "agent_kernel_request"
REPLY_TYPE = "agent_kernel_reply"

MOST_RULES, MOST_RULE_CHARACTERS = 200, 10_000
"""Of a notebook's own rules: a run's header shows each."""
MOST_REPLACED = 100
"""So many earlier runs of a cell are named at most."""
MOST_CELLS_BEFORE = 20
MOST_CHANGES = 200

CellId = Annotated[str, Field(max_length=200)]
Identifier = Annotated[str, Field(pattern=r"^[A-Za-z0-9_.:-]{1,200}$")]
"""An id that a kernel made up. It goes into URLs, frames and the server's log as it is."""


class KernelMessage(BaseModel):
    # A message that is refused is named in the server's log, but not quoted there: it may hold what a user typed.
    # Models are built on first use: a kernel imports this module at `%load_ext`.
    model_config = ConfigDict(frozen=True, extra="ignore", hide_input_in_errors=True, defer_build=True)


ReplyT = TypeVar("ReplyT", bound="Reply")


def type_argument(message: type[BaseModel]) -> Any:
    """What stands in brackets after a generic model where a subclass is declared."""
    return message.__mro__[1].__pydantic_generic_metadata__["args"][0]  # type: ignore[attr-defined]


# Replies


class Reply(KernelMessage):
    ok: Literal[True] = True


class Refused(KernelMessage):
    """Takes the place of any reply where the kernel could not do what was asked."""

    ok: Literal[False] = False
    error: str = "The kernel refused a request."


class Done(Reply):
    """The kernel has nothing to say but that it did it."""


class RunDeclaration(KernelMessage):
    """A run as its cell declared it. The server checks the limits of budgets as well."""

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
    widget_model_id: str | None = None
    replaces: tuple[Identifier, ...] = Field(default=(), max_length=MOST_REPLACED)
    continues: int | None = Field(default=None, ge=0)
    cell_id: CellId | None = None
    cells_before: tuple[CellId, ...] = Field(default=(), max_length=MOST_CELLS_BEFORE)
    """Cells that the same page has run, the last first. They are in the same notebook as this one, which may not be
    saved yet."""
    prompt_in_cell: bool = False
    stop: StopCause | None = None
    """Set where the kernel has asked for the run's end already."""


class Declared(Reply):
    declaration: RunDeclaration


class Deposited(Reply):
    needs_await: bool = False
    """Whether the call has to be claimed by code that awaits (`take_code`)."""
    late: bool = False
    """Whether the code that was to claim the call has stopped waiting for it."""


class InterruptSent(Reply):
    sent: bool = False
    """Whether the call was running and was interrupted, or was withdrawn before it began."""


CallPlace = Literal["deposited", "running", "done", "unknown"]
"""Where a kernel has a call: waiting for its main thread, running, ended, or not at all."""


class CallOutcome(KernelMessage):
    """See `agent_kernel.tools.executor.Outcome`."""

    status: ExecutionStatus
    content: str
    undo: str | None = Field(default=None, max_length=40)
    output_file: str | None = Field(default=None, max_length=4096)


class Collected(Reply):
    """What the kernel holds of a call: its outputs from an index on, and its outcome once it has ended."""

    state: CallPlace
    outputs: tuple[OutputView, ...] = ()
    outcome: CallOutcome | None = None


class WaitingBehind(Reply):
    cell: int | None = None
    """The number of the cell that runs while the call waits."""


class Undone(Reply):
    refusal: str | None = None
    """Why the file was not put back."""


class Judged(Reply):
    """See `agent_kernel.tools.executor.ToolVerdict`."""

    approval: Approval
    place: Place | None = None
    may_edit: bool = False


class Previewed(Reply):
    card: FileCard | None = None


class KeptChange(KernelMessage):
    approval_id: Identifier
    state: ChangeState


class KeptChanges(Reply):
    """The changes of files that the kernel can undo, or has undone."""

    changes: tuple[KeptChange, ...] = Field(default=(), max_length=MOST_CHANGES)


class PictureRead(Reply):
    data: str = ""
    """In base64."""
    refusal: str | None = None
    """Why there is none."""


class EnvironmentDescribed(Reply):
    text: str = ""


# Requests


class Request(KernelMessage, Generic[ReplyT]):
    """Asks for a reply of one type."""

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


class RunEnd(KernelMessage):
    """How a run ended, as the runtime tells it."""

    run: RunView
    text: str
    messages: list[MessageView]
    tool_calls: list[ToolCallView]
    cleared: bool = False
    """Whether a page has taken the cards out of their cell. A page would add outputs to such a cell as well."""


class FinishRun(Request[Done]):
    op: Literal["finish"] = "finish"
    result: RunEnd


class ResumeRun(Request[Done]):
    """A run that had ended is tried again."""

    op: Literal["again"] = "again"
    run_id: str


class ExecuteCall(Request[Deposited]):
    """Deposits an approved call, which code on the main thread claims. See `agent_kernel.tools.executor.ApprovedCall`.
    A repeat changes nothing."""

    op: Literal["call"] = "call"
    approval_id: str
    tool_call_id: str
    tool_name: str
    arguments_json: str
    digest: str
    base: str = ""
    place: Place | None = None
    run_id: str | None = None
    """The run whose tools are meant."""


class InterruptCall(Request[InterruptSent]):
    """Interrupts this call if it is the one that runs, or withdraws it if it has not begun."""

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
    """Puts back the file that a call replaced."""

    op: Literal["undo"] = "undo"
    approval_id: str


class JudgeCall(Request[Judged]):
    """Asks the tool's own approval callable about arguments."""

    op: Literal["judge"] = "judge"
    tool_name: str
    arguments_json: str
    run_id: str | None = None


class PreviewCall(Request[Previewed]):
    """Asks what a call would change in a file."""

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
    """Tells a kernel behind a gateway, whose environment can't say so, that this server serves it."""

    op: Literal["serve"] = "serve"


class AnswerQuestion(Request[Done]):
    op: Literal["answer"] = "answer"
    question_id: str
    answer: dict[str, Any] | None = None
    """Of the type that the question asks for; `None` where it was refused."""
    refusal: str | None = None


RunRequest = DeclareRun | UpdateRun | FinishRun | ResumeRun
CallRequest = ExecuteCall | InterruptCall | CollectCall | LocateCall
ToolRequest = JudgeCall | PreviewCall | UndoCall | ListChanges
KernelRequest = ReadPicture | DescribeEnvironment | Serve | AnswerQuestion
AnyRequest = RunRequest | CallRequest | ToolRequest | KernelRequest


# Reading and making messages


@functools.cache
def _requests() -> TypeAdapter[AnyRequest]:
    return TypeAdapter(Annotated[AnyRequest, Field(discriminator="op")])


def read_request(content: dict[str, Any]) -> AnyRequest:
    """Raises `ValidationError`."""
    return _requests().validate_python(content)


def read_reply(content: dict[str, Any], reply_type: type[ReplyT]) -> ReplyT | Refused:
    """Raises `ValidationError`."""
    return reply_type.model_validate(content) if content.get("ok") is True else Refused.model_validate(content)


def content_of(message: KernelMessage) -> dict[str, Any]:
    """A message as it is sent."""
    return message.model_dump(mode="json")


def failed_run(declaration: RunDeclaration, reason: str) -> RunEnd:
    """The end of a run that could not start."""
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
    return RunEnd(run=run, text="", messages=[], tool_calls=[])
