"""Events of a kernel to the server extension. See `kernel` for the other direction, `kernel_questions` for the events
that are questions.

Events are IOPub messages under a topic of their own, discriminated by `event`.
"""

from operator import not_
from typing import Literal

from pydantic import Field

from agent_kernel.protocol.kernel import Identifier, KernelMessage
from agent_kernel.protocol.tools import Outcome
from agent_kernel.protocol.views import OutputView
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
