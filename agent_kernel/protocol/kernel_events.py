"""What a kernel says to the server extension by itself: events, questions among them, and the answers to those.

Events are IOPub messages under a topic of their own, discriminated by `event`. A question is an event that the server
answers by a request (`AnswerQuestion`); questions are discriminated by `topic`. `kernel` has the other direction.
"""

from typing import Annotated, Any, Generic, Literal, Self, TypeVar, cast

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from agent_kernel.protocol.ids import Identifier, new_question_id
from agent_kernel.protocol.kernel import CallEnd, KernelMessage, argument_of
from agent_kernel.protocol.lists import MOST_DAYS, STATS_DAYS, ModelsView, RunUndoneView, ServersView, UsageReport
from agent_kernel.protocol.metrics import MetricsReport
from agent_kernel.protocol.vocabulary import StopCause

EVENT_TYPE = "agent_kernel_event"
EVENT_TOPIC = b"agent_kernel"


class Hello(KernelMessage):
    """A kernel whose environment names no server looks for one by this: it is repeated until answered, or for a short
    time."""

    event: Literal["hello"] = "hello"


class RunAnnounced(KernelMessage):
    """A cell has made a run. Repeated until the server asks for the run's declaration."""

    event: Literal["announce"] = "announce"
    run_id: Identifier
    conversation_id: Identifier | None = None
    through_gateway: bool = False
    """Whether the event is for a server that reaches the kernel through a gateway. The gateway's own server gets it
    too."""


class CallEnded(KernelMessage):
    """A call has ended, and all that it has put out was sent before. A long text is left for `CollectCall`."""

    event: Literal["outcome"] = "outcome"
    approval_id: str
    end: CallEnd | None = None


class CancelRun(KernelMessage):
    event: Literal["cancel"] = "cancel"
    run_id: Identifier
    cause: StopCause = "script"


class KernelInterrupted(KernelMessage):
    """A user has interrupted the kernel while none of the user's cells ran."""

    event: Literal["interrupted"] = "interrupted"
    run_id: Identifier | None = None
    """The run whose call was interrupted; `None` means all runs that the kernel did not start. It stops its own by
    `CancelRun`."""


# Questions


class Answer(KernelMessage):
    """The answer to a question that requests an action."""


class WaitingRun(KernelMessage):
    """An open run, with what it waits for."""

    run_id: str
    tool_names: tuple[str, ...] = ()
    """The tools of its calls that wait for a person."""
    notebook: str | None = None
    """Set if several notebooks use the kernel."""


class WaitingRuns(KernelMessage):
    runs: tuple[WaitingRun, ...] = ()


class InterruptKnown(KernelMessage):
    asked_for: bool = True
    """Whether an interrupt was requested through Jupyter; also true if the server can't know."""


AnswerT = TypeVar("AnswerT", bound=BaseModel)


class Question(KernelMessage, Generic[AnswerT]):
    """A question, for which a cell waits. Repeated until it is answered."""

    event: Literal["ask"] = "ask"
    question_id: Identifier = Field(default_factory=new_question_id)
    through_gateway: bool = False
    """As in `RunAnnounced`."""

    def routed(self, *, through_gateway: bool) -> Self:
        return self.model_copy(update={"through_gateway": through_gateway})

    @classmethod
    def answer_type(cls) -> type[AnswerT]:
        return cast("type[AnswerT]", argument_of(cls))


class AskUsage(Question[UsageReport]):
    topic: Literal["usage"] = "usage"
    days: int = Field(default=STATS_DAYS, ge=1, le=MOST_DAYS)


class AskMetrics(Question[MetricsReport]):
    topic: Literal["metrics"] = "metrics"
    days: int = Field(default=STATS_DAYS, ge=1, le=MOST_DAYS)


class AskModels(Question[ModelsView]):
    topic: Literal["models"] = "models"


class AskServers(Question[ServersView]):
    """Asks for the MCP servers. Their tools are told without descriptions and parameters."""

    topic: Literal["servers"] = "servers"


class AskWaitingRuns(Question[WaitingRuns]):
    topic: Literal["waiting"] = "waiting"


class AskInterrupt(Question[InterruptKnown]):
    """Asks whether an interrupt of this kernel was requested through Jupyter within the last seconds."""

    topic: Literal["interrupt"] = "interrupt"
    seconds: float = Field(default=0, ge=0)


class AskRemoveRule(Question[Answer]):
    """Revokes a rule that covers a conversation of this kernel. No question makes a rule."""

    topic: Literal["remove_rule"] = "remove_rule"
    conversation_id: Identifier
    rule_id: Identifier


class AskUndoRun(Question[RunUndoneView]):
    """Undoes what a run of this kernel has changed in files and cells, or does it again."""

    topic: Literal["undo_run"] = "undo_run"
    run_id: Identifier
    redo: bool = False


AnyQuestion = (
    AskUsage | AskMetrics | AskModels | AskServers | AskWaitingRuns | AskInterrupt | AskRemoveRule | AskUndoRun
)
OtherEvent = RunAnnounced | Hello | CallEnded | CancelRun | KernelInterrupted
KernelEvent = OtherEvent | AnyQuestion

_QUESTION = Annotated[AnyQuestion, Field(discriminator="topic")]
_EVENT: TypeAdapter[KernelEvent] = TypeAdapter(
    Annotated[OtherEvent | _QUESTION, Field(discriminator="event")],
    config=ConfigDict(hide_input_in_errors=True, defer_build=True),
)


def read_event(content: dict[str, Any]) -> KernelEvent:
    """Raises `ValidationError`."""
    return _EVENT.validate_python(content)
