"""Events of a kernel to the server extension. See `kernel` for the other direction, `kernel_questions` for the events
that are questions, `first_prompt` for the first two.

Events are IOPub messages under a topic of their own, discriminated by `event`.
"""

from typing import Literal

from pydantic import Field

from agent_kernel.protocol.bounds import Identifier
from agent_kernel.protocol.calls import Outcome
from agent_kernel.protocol.kernel import KernelMessage
from agent_kernel.protocol.views import OutputView
from agent_kernel.protocol.vocabulary import StopCause


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
