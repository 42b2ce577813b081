"""`ToolExecutor`, the interface from the runtime to the executor. Each of the two hosts implements it."""

from collections.abc import Callable, Sequence
from typing import Protocol

from agent_kernel.protocol.calls import ApprovedCall, Outcome, Place, ToolVerdict
from agent_kernel.protocol.file_cards import CellCard, FileCard
from agent_kernel.protocol.kernel import EnvironmentDescribed, MentionsRead
from agent_kernel.protocol.views import OutputView

OutputSink = Callable[[OutputView], None]
"""Called in the runtime's event loop, in order, for each live output of the call."""


class ToolExecutor(Protocol):
    """Runs approved calls, identified by their approvals. It never decides whether a call may run.

    All methods raise `KernelGone` if the kernel died, was restarted or was shut down; a call that was executing then
    has an unknown outcome.
    """

    async def execute(self, call: ApprovedCall, emit: OutputSink) -> Outcome:
        """Run one call to its end. Cancelling this coroutine interrupts the call."""
        ...

    async def interrupt(self, approval_id: str) -> bool:
        """Interrupt this call only if it is running. Returns whether a signal was sent."""
        ...

    async def tool_verdict(self, tool_name: str, arguments_json: str) -> ToolVerdict:
        """The answer of the tool's approval callable, and the resolved place of a file tool's call. The caller
        treats errors as `ask` and an unknown place."""
        ...

    async def waiting_behind(self, approval_id: str) -> int | None:
        """The execution count of the user's cell that the kernel runs before this call; `None` once the call runs."""
        ...

    async def state_version(self) -> str | None:
        """A text that is another one whenever something may have changed what calls read: a cell, or a call that is not
        read-only. `None` where that is not known."""
        ...

    async def undo(self, approval_id: str) -> None:
        """Restore the file that a call replaced. Raises `ToolFailed` if the file was changed since."""
        ...

    async def preview(self, tool_name: str, arguments_json: str, place: Place | None) -> FileCard | None:
        """A description, for the card, of the file that a call would change, as it is now; `None` if there is none.

        It is for display only. What runs are the call's arguments.
        """
        ...

    async def cell_card(self, tool_name: str, arguments_json: str, seen: str | None) -> CellCard:
        """As `preview`, for a tool of `CHANGES_CELLS`. `seen` is the digest of the cell's source as the model was last
        told it. Without a notebook that could be changed the card has a refusal."""
        ...

    async def read_picture(self, address: str) -> bytes:
        """Read a picture that a prompt names: a file in the notebook's folder or, with the prefix `attachment:`, an
        attachment of a Markdown cell. Raises `ToolFailed` with the reason."""
        ...

    async def read_mentions(self, names: Sequence[str]) -> MentionsRead:
        """Read the variables, files and cells that a prompt mentions. Raises `ToolFailed` with the reason."""
        ...

    async def describe_environment(self) -> EnvironmentDescribed:
        """What the model is told of its environment: the notebook's path, variables and recent cells, bounded."""
        ...
