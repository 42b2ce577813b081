"""Questions of a kernel to the server extension, their answers, and how the server reads whatever a kernel says.

A question is an event that the server answers by a request (`AnswerQuestion`); questions are discriminated by `topic`.
"""

import functools
from types import GenericAlias
from typing import TYPE_CHECKING, Annotated, Any, Generic, Literal, Self, TypeVar, cast, get_args

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from agent_kernel.protocol.bounds import Identifier
from agent_kernel.protocol.first_prompt import Hello, RunAnnounced
from agent_kernel.protocol.ids import new_question_id
from agent_kernel.protocol.kernel import KernelMessage
from agent_kernel.protocol.kernel_events import CallEnded, CancelRun, KernelInterrupted
from agent_kernel.protocol.lists import MOST_DAYS, STATS_DAYS, ModelsView, UsageReport


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

    if not TYPE_CHECKING:
        # pydantic would make a model of its own for each type of answer.
        __class_getitem__ = classmethod(GenericAlias)

    event: Literal["ask"] = "ask"
    question_id: Identifier = Field(default_factory=new_question_id)
    through_gateway: bool = False
    """As in `RunAnnounced`."""

    def routed(self, *, through_gateway: bool) -> Self:
        return self.model_copy(update={"through_gateway": through_gateway})

    @classmethod
    def answer_type(cls) -> type[AnswerT]:
        return cast("type[AnswerT]", get_args(cls.__orig_bases__[0])[0])  # type: ignore[attr-defined]


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
OtherEvent = RunAnnounced | Hello | CallEnded | CancelRun | KernelInterrupted
KernelEvent = OtherEvent | AnyQuestion


@functools.cache
def _events() -> TypeAdapter[KernelEvent]:
    questions = Field(discriminator="topic")
    events = Annotated[OtherEvent | Annotated[AnyQuestion, questions], Field(discriminator="event")]
    return TypeAdapter(events, config=ConfigDict(hide_input_in_errors=True))


def read_event(content: dict[str, Any]) -> KernelEvent:
    """Raises `ValidationError`."""
    return _events().validate_python(content)
