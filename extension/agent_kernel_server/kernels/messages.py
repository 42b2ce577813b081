"""What kernels send. It comes from another process, so it is validated before anything believes it."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationInfo, field_validator

from agent_kernel.approvals.limits import checked_limits
from agent_kernel.errors import ConfigurationError
from agent_kernel.protocol.events import utc_now
from agent_kernel.protocol.views import (
    MOST_DAYS,
    STATS_DAYS,
    BudgetLimits,
    ErrorView,
    OutputView,
    Place,
    PolicyView,
    RunView,
    Usage,
)
from agent_kernel.protocol.vocabulary import Approval, Effort, PolicyMode, StopCause
from agent_kernel.runtime.settings import MOST_REPLACED, MOST_RULE_CHARACTERS, MOST_RULES, RunSpec
from agent_kernel.runtime.state.run import RunResult
from agent_kernel.tools.builtin.declarations import no_looser
from agent_kernel.tools.declaration import ToolDeclaration
from agent_kernel.tools.executor import ChangeState

EVENT_TOPIC = b"agent_kernel"
EVENT_TYPE = "agent_kernel_event"
REQUEST_TYPE = "agent_kernel_request"


CellId = Annotated[str, Field(max_length=200)]
Identifier = Annotated[str, Field(pattern=r"^[A-Za-z0-9_.:-]{1,200}$")]
"""An id that a kernel made up. It goes into URLs, frames and the server's log as it is."""


class KernelMessage(BaseModel):
    # A message that is refused is named in the server's log, but not quoted there: it may hold what a user typed.
    model_config = ConfigDict(frozen=True, extra="ignore", hide_input_in_errors=True)


class Announce(KernelMessage):
    """A cell has made a run. Repeated until the run's declaration is asked for."""

    event: Literal["announce"]
    run_id: Identifier
    conversation_id: Identifier | None = None
    through_gateway: bool = False
    """Whether the kernel takes a server for its own that reaches it through a gateway."""


class Hello(KernelMessage):
    """A kernel asks for a server that its environment can't tell it of. Repeated for a moment, or until answered."""

    event: Literal["hello"]


class CallOutput(KernelMessage):
    event: Literal["output"]
    approval_id: str
    index: int = Field(ge=0)
    output: OutputView


class CallEnded(KernelMessage):
    """A hint: the outcome itself is collected."""

    event: Literal["outcome"]
    approval_id: str


class CancelRun(KernelMessage):
    event: Literal["cancel"]
    run_id: Identifier
    cause: StopCause = "script"


class Interrupted(KernelMessage):
    """A user has interrupted the kernel, where no cell of theirs runs."""

    event: Literal["interrupted"]
    run_id: Identifier | None = None
    """The run whose call was hit, or `None`: all that the kernel did not start itself. It stops its own by `cancel`."""


class Ask(KernelMessage):
    """A cell waits for what the server knows. Repeated until it is answered."""

    event: Literal["ask"]
    question_id: Identifier
    topic: Literal["usage", "models", "waiting", "remove_rule", "interrupt", "undo"]
    conversation_id: Identifier | None = None
    rule_id: Identifier | None = None
    """The rule to be removed, and a conversation of this kernel that it covers. Nothing can be asked for that makes a
    rule."""
    approval_id: Identifier | None = None
    """Of the call of this kernel whose change of a file is to be undone."""
    days: int = Field(default=STATS_DAYS, ge=1, le=MOST_DAYS)
    seconds: float = Field(default=0, ge=0)
    """For `interrupt`: whether somebody has asked Jupyter for one within so many."""
    through_gateway: bool = False
    """As in `Announce`."""


KernelEvent = Annotated[
    Ask | Announce | Hello | CallOutput | CallEnded | CancelRun | Interrupted, Field(discriminator="event")
]
kernel_event_adapter: TypeAdapter[KernelEvent] = TypeAdapter(KernelEvent)


class FrameHeader(KernelMessage):
    msg_type: str = ""
    msg_id: str | None = None
    session: str | None = None


class GatewayFrame(KernelMessage):
    """A message of a kernel as its gateway passes it on, in the JSON of Jupyter's WebSocket protocol."""

    channel: str
    header: FrameHeader
    parent_header: FrameHeader = FrameHeader()
    content: dict[str, Any] = Field(default_factory=dict)


class RunDeclaration(KernelMessage):
    """A run as its cell declared it."""

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
    cells_before: tuple[CellId, ...] = Field(default=(), max_length=20)
    """Cells that the same page has run, the last first: they are in the notebook of this one, and were saved maybe."""
    prompt_in_cell: bool = False
    stop: StopCause | None = None
    """Set where the kernel has asked for the run's end already."""

    @field_validator("budget", "conversation_budget", mode="before")
    @classmethod
    def _check_limits(cls, value: Any, info: ValidationInfo) -> BudgetLimits:
        if not isinstance(value, dict):
            raise ValueError("limits are an object")  # noqa: TRY004 -- pydantic takes no other
        try:
            return checked_limits(value, info.field_name or "budget")
        except ConfigurationError as error:
            raise ValueError(str(error)) from None

    def spec(self, notebook_path: str | None) -> RunSpec:
        return RunSpec(
            run_id=self.run_id,
            prompt=self.prompt,
            model=self.model,
            tools=tuple(no_looser(tool) for tool in self.tools),
            policy=self.policy,
            rules=self.rules,
            system=self.system,
            budget=self.budget,
            conversation_budget=self.conversation_budget,
            effort=self.effort,
            widget_model_id=self.widget_model_id,
            replaces=self.replaces,
            continues=self.continues,
            cell_id=self.cell_id,
            notebook_path=notebook_path,
            prompt_in_cell=self.prompt_in_cell,
        )


class Judged(KernelMessage):
    """What a kernel says of a call: `ToolVerdict`. Older ones say no more than the approval."""

    approval: Approval
    place: Place | None = None
    may_edit: bool = False


class KeptChange(KernelMessage):
    approval_id: Identifier
    state: ChangeState


class KeptChanges(KernelMessage):
    """The changes of files whose way back a kernel knows."""

    changes: tuple[KeptChange, ...] = Field(default=(), max_length=200)


class OutcomeContent(KernelMessage):
    status: Literal["success", "error", "cancelled", "unknown"]
    content: str
    undo: str | None = Field(default=None, max_length=40)
    output_file: str | None = Field(default=None, max_length=4096)


class Collected(KernelMessage):
    """What the kernel holds of a call: its outputs from an index on, and its outcome once it has ended."""

    state: Literal["deposited", "running", "done", "unknown"]
    outputs: list[OutputView] = Field(default_factory=list)
    outcome: OutcomeContent | None = None


def finished_result(result: RunResult, *, cleared: bool) -> dict[str, Any]:
    """What the kernel's `Run` is given at the end. `cleared`: its cell's outputs were."""
    return {
        "cleared": cleared,
        "run": result.run.model_dump(mode="json"),
        "text": result.text,
        "messages": [message.model_dump(mode="json") for message in result.messages],
        "tool_calls": [call.model_dump(mode="json") for call in result.tool_calls],
        "usage": result.run.usage.model_dump(mode="json"),
    }


def refused_result(declaration: RunDeclaration, reason: str) -> dict[str, Any]:
    """The same for a run that could not start."""
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
    return {
        "run": run.model_dump(mode="json"),
        "text": "",
        "messages": [],
        "tool_calls": [],
        "usage": run.usage.model_dump(mode="json"),
    }
