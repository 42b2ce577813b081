"""The wire between a kernel and the server extension: events, questions, and the answers to them. See `kernel`.

A kernel sends events as IOPub messages under a topic of its own; `event` tells them apart. A question is an event whose
answer comes as a request (`AnswerQuestion`); `topic` tells questions apart.
"""

import functools
from typing import Annotated, Any, Generic, Literal, TypeVar, cast

from pydantic import BaseModel, Field, TypeAdapter

from agent_kernel.protocol.kernel import Identifier, KernelMessage, type_argument
from agent_kernel.protocol.views import MOST_DAYS, STATS_DAYS, ModelsView, OutputView, UsageReport
from agent_kernel.protocol.vocabulary import StopCause

EVENT_TYPE = "agent_kernel_event"
EVENT_TOPIC = b"agent_kernel"


class RunAnnounced(KernelMessage):
    """A cell has made a run. Repeated until the run's declaration is asked for."""

    event: Literal["announce"] = "announce"
    run_id: Identifier
    conversation_id: Identifier | None = None
    through_gateway: bool = False
    """Whether the server that is meant reaches the kernel through a gateway. The gateway's own server gets the event as
    well."""


class Hello(KernelMessage):
    """A kernel whose environment names no server looks for one. Repeated for a moment, or until answered."""

    event: Literal["hello"] = "hello"


class CallOutput(KernelMessage):
    event: Literal["output"] = "output"
    approval_id: str
    index: int = Field(ge=0)
    output: OutputView


class CallEnded(KernelMessage):
    """A hint: the outcome itself is collected."""

    event: Literal["outcome"] = "outcome"
    approval_id: str


class CancelRun(KernelMessage):
    event: Literal["cancel"] = "cancel"
    run_id: Identifier
    cause: StopCause = "script"


class KernelInterrupted(KernelMessage):
    """A user has interrupted the kernel while none of their cells ran."""

    event: Literal["interrupted"] = "interrupted"
    run_id: Identifier | None = None
    """The run whose call was hit, or `None`: all that the kernel did not start itself. It stops its own by
    `CancelRun`."""


class Answer(KernelMessage):
    """The server's answer to a question that asks for something to be done."""


class WaitingRun(KernelMessage):
    """An open run, with what it waits for."""

    run_id: str
    tool_names: tuple[str, ...] = ()
    """Of its calls that wait for a person."""
    notebook: str | None = None
    """Set where several notebooks use the kernel."""


class WaitingRuns(KernelMessage):
    runs: tuple[WaitingRun, ...] = ()


class InterruptKnown(KernelMessage):
    asked_for: bool = True
    """Whether somebody has asked Jupyter for an interrupt. Also true where the server can't know."""


AnswerT = TypeVar("AnswerT", bound=BaseModel)


class Question(KernelMessage, Generic[AnswerT]):
    """A cell waits for something that the server knows or does. Repeated until it is answered."""

    event: Literal["ask"] = "ask"
    question_id: Identifier
    through_gateway: bool = False
    """As in `RunAnnounced`."""

    @classmethod
    def answer_type(cls) -> type[AnswerT]:
        return cast("type[AnswerT]", type_argument(cls))


class AskUsage(Question[UsageReport]):
    topic: Literal["usage"] = "usage"
    days: int = Field(default=STATS_DAYS, ge=1, le=MOST_DAYS)


class AskModels(Question[ModelsView]):
    topic: Literal["models"] = "models"


class AskWaitingRuns(Question[WaitingRuns]):
    topic: Literal["waiting"] = "waiting"


class AskInterrupt(Question[InterruptKnown]):
    """Whether somebody has asked Jupyter to interrupt this kernel within so many seconds."""

    topic: Literal["interrupt"] = "interrupt"
    seconds: float = Field(default=0, ge=0)


class AskRemoveRule(Question[Answer]):
    """Takes a rule out of force that covers a conversation of this kernel. No question makes a rule."""

    topic: Literal["remove_rule"] = "remove_rule"
    conversation_id: Identifier
    rule_id: Identifier


class AskUndo(Question[Answer]):
    """Undoes the change of a file by a call of this kernel."""

    topic: Literal["undo"] = "undo"
    approval_id: Identifier


AnyQuestion = AskUsage | AskModels | AskWaitingRuns | AskInterrupt | AskRemoveRule | AskUndo
OtherEvent = RunAnnounced | Hello | CallOutput | CallEnded | CancelRun | KernelInterrupted
KernelEvent = OtherEvent | AnyQuestion


@functools.cache
def _events() -> TypeAdapter[KernelEvent]:
    questions = Field(discriminator="topic")
    return TypeAdapter(Annotated[OtherEvent | Annotated[AnyQuestion, questions], Field(discriminator="event")])


def read_event(content: dict[str, Any]) -> KernelEvent:
    """Raises `ValidationError`."""
    return _events().validate_python(content)
