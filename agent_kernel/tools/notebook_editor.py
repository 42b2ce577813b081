"""`NotebookEditor`, the interface to the notebook that a run is in, as a page or a file has it."""

from dataclasses import dataclass
from typing import Protocol

from agent_kernel.errors import AgentKernelError
from agent_kernel.protocol.pages import AnyPageRequest, PageAnswer


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
