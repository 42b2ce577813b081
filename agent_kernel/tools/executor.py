"""`ToolExecutor`, the interface from the runtime to the executor, which each of the two hosts implements; and
`ServerTools`, that to the MCP servers of a host that has some."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from agent_kernel.errors import AgentKernelError
from agent_kernel.protocol.calls import ApprovedCall, Outcome, Place, ToolVerdict
from agent_kernel.protocol.file_cards import CellCard, FileCard
from agent_kernel.protocol.kernel import EnvironmentDescribed, Mention
from agent_kernel.protocol.pages import AnyPageRequest, PageAnswer
from agent_kernel.protocol.views import OutputView
from agent_kernel.tools.declaration import ToolDeclaration


@dataclass(frozen=True, slots=True)
class InputRequest:
    """The code of a call waits for a line: `input()`, or `getpass()` where it is a `password`."""

    prompt: str
    password: bool
    reply: Callable[[str], None]


OutputSink = Callable[[OutputView | InputRequest], None]
"""Called in the runtime's event loop, in order, for each live output of the call and each line that it asks for."""


Ask = Callable[[str, Sequence[str]], Awaitable[str | None]]
"""Asks the person a question, with answers to choose from if there are any. `None` if there is no answer."""


class CallExecutor(Protocol):
    """Runs approved calls, identified by their approvals. It never decides whether a call may run."""

    async def execute(self, call: ApprovedCall, emit: OutputSink) -> Outcome:
        """Run one call to its end. Cancelling this coroutine interrupts the call."""
        ...

    async def interrupt(self, approval_id: str) -> bool:
        """Interrupt this call only if it is running. Returns whether a signal was sent."""
        ...

    async def waiting_behind(self, approval_id: str) -> int | None:
        """The execution count of the user's cell that the kernel runs before this call; `None` once the call runs."""
        ...


class ServerTools(Protocol):
    """The tools of the MCP servers that are configured."""

    async def offered(self, notebook_path: str | None, *, wait: bool = True) -> Sequence[ToolDeclaration]:
        """The tools for a run of this notebook, as their servers define them now; those that are down have none.
        With `wait`, the servers of the present configuration are started, and waited for a short time."""
        ...

    async def unallowed(self, notebook_path: str | None) -> dict[str, Any] | None:
        """What the file of a notebook's folder would start (`file`, its `sha256`, `servers`), where there is one and no
        person has decided about it."""
        ...

    async def decide(self, arguments: dict[str, Any], notebook_path: str | None, *, allowed: bool) -> tuple[bool, str]:
        """Note a person's decision about that, and start the servers where it is a yes and the file is still the same.
        Returns whether they can't be started, and what was done."""
        ...

    async def call(
        self, call: ApprovedCall, tool: ToolDeclaration, notebook_path: str | None, emit: OutputSink, ask: Ask
    ) -> Outcome:
        """Have a server carry out one call. Cancelling this coroutine tells the server to stop. A server that is lost
        once it was sent the call leaves an unknown outcome."""
        ...


class ToolExecutor(CallExecutor, Protocol):
    """The executor of a notebook's kernel.

    All methods raise `KernelGone` if the kernel died, was restarted or was shut down; a call that was executing then
    has an unknown outcome.
    """

    async def tool_verdict(self, tool_name: str, arguments_json: str) -> ToolVerdict:
        """The answer of the tool's approval callable, and the resolved place of a file tool's call. The caller
        treats errors as `ask` and an unknown place."""
        ...

    async def state_version(self) -> str | None:
        """A text that is another one whenever something may have changed what calls read: a cell, or a call that is not
        read-only. `None` where that is not known."""
        ...

    async def undo(self, approval_id: str, *, redo: bool = False) -> None:
        """Restore the file or cell that a call changed, or, to `redo`, change it again. Raises `ToolFailed` if it was
        changed since."""
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

    async def read_mentions(self, names: Sequence[str]) -> tuple[Mention, ...]:
        """Read the variables, files and cells that a prompt mentions. Raises `ToolFailed` with the reason."""
        ...

    async def describe_environment(self) -> EnvironmentDescribed:
        """What the model is told of its environment: the notebook's path, variables and recent cells, bounded."""
        ...


class NobodyKnows(AgentKernelError):
    """Whether something was done can't be found out."""


@dataclass(frozen=True, slots=True)
class Answered:
    answer: PageAnswer
    place: str
    """Where the cells are from: "as the page shows it now"."""
    path: str


class NotebookEditor(Protocol):
    async def ask(self, request: AnyPageRequest) -> Answered:
        """Have a page or the file do it. Raises `ToolFailed` where neither can, and nothing was done; `NobodyKnows`."""
        ...

    async def interrupt(self) -> None:
        """Interrupt the cell that runs."""
        ...
