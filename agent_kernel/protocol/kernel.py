"""Requests of the server extension to a kernel, and their replies. Both ends use these models.

Requests go over the control channel, which answers while the kernel's main thread is busy; they are discriminated by
`op`. `kernel_events` has the other direction. A kernel runs a user's code, so the server validates everything that
comes from it, within the bounds stated here.
"""

import json
from typing import Annotated, Any, Generic, Literal, TypeVar, cast

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from agent_kernel.protocol.calls import ApprovedCall, Place, SeenCell, ToolVerdict
from agent_kernel.protocol.decisions import MOST_DECISIONS, ScriptedDecision
from agent_kernel.protocol.events import utc_now
from agent_kernel.protocol.file_cards import FileCard
from agent_kernel.protocol.ids import CellId, Identifier
from agent_kernel.protocol.run_results import RunResult
from agent_kernel.protocol.tools import ToolDeclaration
from agent_kernel.protocol.views import ErrorView, PolicyView, RunView, Usage
from agent_kernel.protocol.vocabulary import (
    BudgetLimits,
    CallPhase,
    ChangeState,
    Effort,
    ExecutionStatus,
    PolicyMode,
    StopCause,
)

REQUEST_TYPE = "agent_kernel_request"
REPLY_TYPE = "agent_kernel_reply"
"""The types of these messages."""
OWN_CODE = '__import__("agent_kernel.notebook"'
"""The beginning of this code, by which the kernel tells it from the user's."""
CALL_KEY = "agent_kernel"
"""A key in the metadata of an `execute_request` that runs a call: the content of an `OfferCall`."""
MOST_RULES, MOST_RULE_CHARACTERS = 200, 10_000
"""Bounds of a notebook's own rules, all of which a run's header shows."""
MOST_REPLACED = 100
"""The most earlier runs of a cell that a run may replace."""
MOST_CELLS_BEFORE = 20
MOST_CHANGES = 200
MOST_DESCRIBED = 20_000
FOLDER_OPEN = ", in the folder "
VARIABLES_OPEN = "The user's variables:\n"
CELLS_OPEN = "The cells that were run last:\n"
MENTIONS_OPEN = "What the prompt mentions:\n"
"""Beginnings of parts of the notebook's summary, as the model reads it: recordings compare the variables, and the
variables and files that a prompt mentions."""
MOST_MENTIONS = 20
"""Of one prompt."""
MENTION_CHARACTERS = 6_000
"""The most that the model is told of one mention."""


class KernelMessage(BaseModel):
    # `hide_input_in_errors`: the server logs refused messages without their content, which may be a user's input.
    # `defer_build`: a process uses few of these models.
    model_config = ConfigDict(frozen=True, extra="ignore", hide_input_in_errors=True, defer_build=True)


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
    budget: BudgetLimits = BudgetLimits()
    conversation_budget: BudgetLimits = BudgetLimits()
    tools: tuple[ToolDeclaration, ...] = ()
    server_tools: tuple[Annotated[str, Field(max_length=200)], ...] | None = Field(default=None, max_length=100)
    """As in `RunSpec`."""
    server_cache: tuple[Annotated[str, Field(max_length=200)], ...] = Field(default=(), max_length=100)
    """As in `RunSpec`."""
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


# Replies


class Refused(KernelMessage):
    """Replaces any reply if the kernel could not carry out the request."""

    ok: Literal[False] = False
    error: str = "The kernel refused a request."


class Reply(KernelMessage):
    """Says that a request was carried out."""

    ok: Literal[True] = True


ValueT = TypeVar("ValueT")


class Value(Reply, Generic[ValueT]):
    """Replies to a request for one value."""

    value: ValueT


class Declared(Reply):
    declaration: RunDeclaration


class EnvironmentDescribed(Reply):
    text: str = Field(default="", max_length=MOST_DESCRIBED)
    cells: tuple[SeenCell, ...] = Field(default=(), max_length=MOST_CELLS_BEFORE)
    """The cells whose whole source is in the text."""


class CallEnd(KernelMessage):
    """How a call has ended. Its outputs are those of any execution."""

    status: ExecutionStatus
    text: str = ""
    """For the model, after what the call has put out; where `is_whole` is set, in its place."""
    is_whole: bool = False
    undo: str | None = Field(default=None, max_length=40)
    """As in `Outcome`."""


class Collected(Reply):
    """How far a call is, and its end once it has one."""

    state: CallPhase
    end: CallEnd | None = None


class KeptChange(KernelMessage):
    approval_id: Identifier
    state: ChangeState


class PictureRead(Reply):
    data: str = ""
    """The picture in base64."""
    refusal: str | None = None
    """Why there is no picture."""


class Mention(KernelMessage):
    """What a prompt mentions, as `@name`, where there is such a thing."""

    name: str = Field(max_length=300)
    """As the request has it."""
    is_cell: bool = False
    is_saved: bool = False
    """Whether the cell is told as it was last saved: the kernel does not know what it showed."""
    cell: SeenCell | None = None
    """Set if the text has the whole source of the cell."""
    text: str = Field(default="", max_length=MENTION_CHARACTERS)
    refusal: str | None = Field(default=None, max_length=500)
    """Why it was not read."""


# Requests

ReplyT = TypeVar("ReplyT", bound=Reply)


class Request(KernelMessage, Generic[ReplyT]):
    """A request, with the type of its reply."""

    @classmethod
    def reply_type(cls) -> type[ReplyT]:
        return cast("type[ReplyT]", argument_of(cls))


def argument_of(model: type[BaseModel]) -> type[Any]:
    """The type that a model gives to the generic one that it derives from."""
    argument: type[Any] = model.__mro__[1].__pydantic_generic_metadata__["args"][0]  # type: ignore[attr-defined]  # of pydantic
    return argument


class Serve(Request[Reply]):
    """Tells a kernel behind a gateway that this server serves it, which its environment can't say."""

    op: Literal["serve"] = "serve"


class DeclareRun(Request[Declared]):
    """Asks for the run that was announced."""

    op: Literal["declare"] = "declare"
    run_id: str


class DescribeEnvironment(Request[EnvironmentDescribed]):
    """Asks for what the model is told of the notebook."""

    op: Literal["environment"] = "environment"
    notebook_path: str | None = None
    run_id: str | None = None
    """The run that begins, whose own cell is left out."""


class UpdateRun(Request[Reply]):
    """Sent when the state of a run changes."""

    op: Literal["state"] = "state"
    run: RunView


class FinishRun(Request[Reply]):
    """Sent when a run has ended."""

    op: Literal["finish"] = "finish"
    result: RunResult


class ResumeRun(Request[Reply]):
    """Sent when a run that had ended is tried again."""

    op: Literal["again"] = "again"
    run_id: str


class OfferCall(Request[Reply]):
    """Offers an approved call to a cell that waits for a run. Idempotent. The execution that runs it elsewhere has this
    in its metadata."""

    op: Literal["call"] = "call"
    call: ApprovedCall
    run_id: str | None = None
    """The run whose tools are meant."""
    message_id: str = ""
    """The id of that execution's message, which the outputs name as their parent."""


class InterruptCall(Request[Value[bool]]):
    """Interrupts the call if it is running, or withdraws it if it has not begun. Whether it did one of these."""

    op: Literal["interrupt"] = "interrupt"
    approval_id: str


class CollectCall(Request[Collected]):
    op: Literal["collect"] = "collect"
    approval_id: str


class LocateCall(Request[Value[int | None]]):
    """Asks for the execution count of the cell for which the call waits."""

    op: Literal["waiting"] = "waiting"
    approval_id: str


class AskWhetherCellWaits(Request[Value[bool]]):
    """Asks whether the cell that runs waits for this run, so that no other cell can run before it has ended."""

    op: Literal["waits"] = "waits"
    run_id: str


class ReadStateVersion(Request[Value[Annotated[str, Field(max_length=64)]]]):
    """Asks for a text that is another one whenever something may have changed what calls read: a cell, or a call that
    is not read-only. Only sent for a call of a tool with a cache."""

    op: Literal["version"] = "version"


class UndoCall(Request[Value[str | None]]):
    """Restores the file that a call replaced, or replaces it again. Why it was not restored, where it was not."""

    op: Literal["undo"] = "undo"
    approval_id: str
    redo: bool = False


class GiveVerdict(Request[Value[ToolVerdict]]):
    """Asks for the tool's own verdict on a call."""

    op: Literal["verdict"] = "verdict"
    tool_name: str
    arguments_json: str
    run_id: str | None = None


class PreviewCall(Request[Value[FileCard | None]]):
    """Describes the file change that a call would make."""

    op: Literal["preview"] = "preview"
    tool_name: str
    arguments_json: str
    place: Place | None = None


class ListChanges(Request[Value[Annotated[tuple[KeptChange, ...], Field(max_length=MOST_CHANGES)]]]):
    """Asks for the file changes that the kernel can undo, or has undone."""

    op: Literal["changes"] = "changes"


class ReadPicture(Request[PictureRead]):
    """Reads a picture that a prompt names."""

    op: Literal["picture"] = "picture"
    path: str
    run_id: str | None = None
    notebook_path: str | None = None


class ReadMentions(Request[Value[Annotated[tuple[Mention, ...], Field(max_length=MOST_MENTIONS)]]]):
    """Reads the variables, files and cells that a prompt mentions, without running any of the user's code."""

    op: Literal["mentions"] = "mentions"
    names: tuple[str, ...] = Field(max_length=MOST_MENTIONS)
    """Without the `@`: `sales`, `sales.csv`, `[3]`, `cell:ID`."""
    notebook_path: str | None = None


class AnswerQuestion(Request[Reply]):
    op: Literal["answer"] = "answer"
    question_id: str
    answer: dict[str, Any] | None = None
    """The answer, of the type that belongs to the question; `None` if it was refused."""
    refusal: str | None = None


AnyRequest = (
    DeclareRun
    | UpdateRun
    | FinishRun
    | ResumeRun
    | AskWhetherCellWaits
    | OfferCall
    | InterruptCall
    | CollectCall
    | LocateCall
    | GiveVerdict
    | PreviewCall
    | UndoCall
    | ListChanges
    | Serve
    | DescribeEnvironment
    | ReadStateVersion
    | ReadPicture
    | ReadMentions
    | AnswerQuestion
)

_REQUEST: TypeAdapter[AnyRequest] = TypeAdapter(
    Annotated[AnyRequest, Field(discriminator="op")], config=ConfigDict(defer_build=True)
)


def read_request(content: dict[str, Any]) -> AnyRequest:
    """Raises `ValidationError`."""
    return _REQUEST.validate_python(content)


def read_reply(content: dict[str, Any], reply_type: type[ReplyT]) -> ReplyT | Refused:
    """Raises `ValidationError`."""
    return (reply_type if content.get("ok") is True else Refused).model_validate(content)


def failed_run(declaration: RunDeclaration, reason: str) -> RunResult:
    """The message for the end of a run that could not start."""
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


# Code that the server, or the kernel itself, has the kernel's main thread run


def _own_code(name: Literal["install", "run_call"], argument: str = "") -> str:
    """A call of a function of `agent_kernel.notebook` that binds no name."""
    return f'{OWN_CODE}, fromlist=["{name}"]).{name}({argument})'


INSTALL_CODE = _own_code("install")
"""Makes a kernel answer requests although its user has not loaded the extension."""


def call_code(approval_id: str) -> str:
    """The code that runs the call in its message's metadata."""
    return f"await {_own_code('run_call', json.dumps(approval_id))}"


def without_await(code: str) -> str:
    """As `call_code`, of this code, for a kernel whose cells can't await."""
    return code.removeprefix("await ").replace("run_call", "run_call_blocking")


def execute_request(code: str) -> dict[str, Any]:
    """The content of an `execute_request`. It is silent, so that execution counts and `_` stay the user's."""
    return {
        "code": code,
        "silent": True,
        "store_history": False,
        "user_expressions": {},
        "allow_stdin": False,
        "stop_on_error": False,
    }
