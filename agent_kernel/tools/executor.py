"""What the runtime asks of the executor. The server's kernel bridge and the embedded host each implement it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from agent_kernel.protocol.tools import FileCard
from agent_kernel.protocol.views import OutputView, Place
from agent_kernel.protocol.vocabulary import Approval, ExecutionStatus

OutputSink = Callable[[OutputView], None]
"""Called in the runtime's event loop, in order, for each live output of the call."""


@dataclass(frozen=True, slots=True)
class ApprovedCall:
    """A call as the log holds it: these arguments run, never ones that come back from a page."""

    approval_id: str
    """What the call goes by: unique for all, and executed once at most, because an edited call keeps its approval and a
    repeated one is a new call."""
    tool_call_id: str
    """The model's id, for people who read a log. Another conversation's call may have the same one."""
    tool_name: str
    arguments_json: str
    digest: str
    base: str = ""
    """Names what the file held that a person was shown (`FileChange.base`); empty where nothing has to be as it was."""
    place: Place | None = None
    """The only one that a file tool's call may open; `None` where it was approved for whatever its path leads to."""


@dataclass(frozen=True, slots=True)
class Outcome:
    status: ExecutionStatus
    content: str
    """The whole text for the model, untruncated (within the executor's own hard cap)."""
    undo: str | None = None
    """Set where `ToolExecutor.undo` can take the call back: when the file that it replaced was last changed (UTC, ISO
    8601), or an empty text where there was none."""
    output_file: str | None = None
    """The file that has the whole output where the content has not, or where it was written in any case."""


@dataclass(frozen=True, slots=True)
class ToolVerdict:
    """What is said of a call where its tool is."""

    approval: Approval
    """What the tool's own approval callable says."""
    place: Place | None = None
    """Of a file tool's call. The rest is about this place."""
    may_edit: bool = False
    """Whether the mode `edit` covers writing this file."""


class ToolExecutor(Protocol):
    """Runs approved calls, each known by its approval. It never decides whether a call may run.

    Methods raise `KernelGone` where the kernel died, was restarted or was shut down; a call that was executing
    then has an unknown outcome.
    """

    async def execute(self, call: ApprovedCall, emit: OutputSink) -> Outcome:
        """Run one call to its end. Cancelling this coroutine interrupts the call."""
        ...

    async def interrupt(self, approval_id: str) -> bool:
        """Interrupt this call if, and only if, it is the one that runs. True if a signal was sent."""
        ...

    async def judge(self, tool_name: str, arguments_json: str) -> ToolVerdict:
        """Ask the tool's own approval callable, and where a file tool's path leads. The caller treats any error as
        `ask`, and as a place that is not known."""
        ...

    async def waiting_behind(self, approval_id: str) -> int | None:
        """The number of the user's own cell behind which a call waits that was handed over; `None` once it runs."""
        ...

    async def undo(self, approval_id: str) -> None:
        """Put back what a call of a file tool replaced. Raises `ToolFailed` where the file was changed since."""
        ...

    async def preview(self, tool_name: str, arguments_json: str, place: Place | None) -> FileCard | None:
        """What a card says of the file that a call would change, as it is now; `None` where nobody can tell.

        It is for the person to read. What runs is the call's arguments.
        """
        ...

    async def read_picture(self, address: str) -> bytes:
        """A picture that a prompt names: a file in the notebook's folder, or with `attachment:` before its name one
        that is attached to a Markdown cell. Raises `ToolFailed` with the reason why not."""
        ...

    async def describe_environment(self) -> str:
        """Where the model is: the notebook's path, a bounded summary of variables and of recent cells."""
        ...
