"""Events of a kernel to the server extension. See `kernel` for the other direction, `kernel_questions` for the events
that are questions, `first_prompt` for the first two.

Events are IOPub messages under a topic of their own, discriminated by `event`.
"""

from typing import Literal

from agent_kernel.protocol.bounds import Identifier
from agent_kernel.protocol.kernel import CallEnd, KernelMessage
from agent_kernel.protocol.vocabulary import StopCause


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
