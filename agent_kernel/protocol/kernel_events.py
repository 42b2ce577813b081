"""Events and questions of a kernel to the server extension, and the answers. See `kernel` for the other direction.

Events are IOPub messages under a topic of their own, discriminated by `event`. A question is an event that the server
answers by a request (`AnswerQuestion`); questions are discriminated by `topic`.
"""

import functools
from operator import not_
from typing import Annotated, Any, Generic, Literal, Self, TypeVar, cast

from pydantic import BaseModel, Field, TypeAdapter

from agent_kernel.protocol.ids import new_question_id
from agent_kernel.protocol.kernel import Identifier, KernelMessage, type_argument
from agent_kernel.protocol.tools import Outcome
from agent_kernel.protocol.views import MOST_DAYS, STATS_DAYS, ModelsView, OutputView, UsageReport
from agent_kernel.protocol.vocabulary import StopCause


class RunAnnounced(KernelMessage):
    """A cell has made a run. Repeated until the server asks for the run's declaration."""

    event: Literal["announce"] = "announce"
    run_id: Identifier
    conversation_id: Identifier | None = None
    through_gateway: bool = Field(default=False, exclude_if=not_)
    """Whether the event is for a server that reaches the kernel through a gateway. The gateway's own server gets it
    too. It is sent only where it is: every page of the notebook gets what is announced."""


class Hello(KernelMessage):
    """A kernel has loaded the extension. One whose environment names no server looks for one by this: it is repeated
    until answered, or for a short time."""

    event: Literal["hello"] = "hello"


class CallOutput(KernelMessage):
    event: Literal["output"] = "output"
    approval_id: str
    index: int = Field(ge=0)
    output: OutputView


class CallEnded(KernelMessage):
    """A call has ended. The server collects by a request what the event lacks, and what was lost of the outputs."""

    event: Literal["outcome"] = "outcome"
    approval_id: str
    outcome: Outcome | None = None
    """Left out if it is long."""
    outputs: int = Field(default=0, ge=0)
    """The number of the call's outputs, each of which was sent as an event before."""


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
        return cast("type[AnswerT]", type_argument(cls))


class AskUsage(Question[UsageReport]):
    topic: Literal["usage"] = "usage"
    days: int = Field(default=STATS_DAYS, ge=1, le=MOST_DAYS)


class AskModels(Question[ModelsView]):
    topic: Literal["models"] = "models"


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


class AskUndo(Question[Answer]):
    """Undoes a file change by a call of this kernel."""

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
