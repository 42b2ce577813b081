"""`ClientExecutor`: carries out the call of an agent outside, in the kernel that its notebook has by then."""

from collections.abc import Awaitable, Callable, Sequence

from agent_kernel.execution.notebook_executor import NotebookExecutor
from agent_kernel.protocol.calls import ApprovedCall, Outcome, Place, ToolVerdict
from agent_kernel.protocol.file_cards import CellCard, FileCard
from agent_kernel.protocol.kernel import EnvironmentDescribed, MentionsRead
from agent_kernel.tools.arguments import parse
from agent_kernel.tools.executor import OutputSink


class ClientExecutor:
    """Implements `agent_kernel.tools.executor.ToolExecutor` for one run. A call that waits outlives its kernel, and the
    server: `find` finds or starts one each time. `reader` reads the notebook without a kernel."""

    def __init__(self, find: Callable[[], Awaitable[NotebookExecutor]], reader: NotebookExecutor) -> None:
        self._find = find
        self._reader = reader
        self._last: NotebookExecutor | None = None
        """The one in which the call has begun."""

    async def execute(self, call: ApprovedCall, emit: OutputSink) -> Outcome:
        if _reads_this(call.tool_name, call.arguments_json):
            return await self._reader.execute(call, emit)
        self._last = await self._find()
        return await self._last.execute(call, emit)

    async def interrupt(self, approval_id: str) -> bool:
        return self._last is not None and await self._last.interrupt(approval_id)

    async def tool_verdict(self, tool_name: str, arguments_json: str) -> ToolVerdict:
        if _reads_this(tool_name, arguments_json):
            return ToolVerdict("allow")
        return await (await self._find()).tool_verdict(tool_name, arguments_json)

    async def waiting_behind(self, approval_id: str) -> int | None:
        return await self._last.waiting_behind(approval_id) if self._last is not None else None

    async def state_version(self) -> str | None:
        return None  # stored outcomes are those of a model's conversation

    async def undo(self, approval_id: str, *, redo: bool = False) -> None:
        await (self._last or await self._find()).undo(approval_id, redo=redo)

    async def preview(self, tool_name: str, arguments_json: str, place: Place | None) -> FileCard | None:
        return await (await self._find()).preview(tool_name, arguments_json, place)

    async def cell_card(self, tool_name: str, arguments_json: str, seen: str | None) -> CellCard:
        return await (await self._find()).cell_card(tool_name, arguments_json, seen)

    async def read_picture(self, address: str) -> bytes:
        return await (await self._find()).read_picture(address)

    async def read_mentions(self, names: Sequence[str]) -> MentionsRead:
        return await (await self._find()).read_mentions(names)

    async def describe_environment(self) -> EnvironmentDescribed:
        return EnvironmentDescribed()


def _reads_this(tool_name: str, arguments_json: str) -> bool:
    """Whether a call reads the notebook that it names, for which no kernel is needed."""
    return tool_name == "read_notebook" and parse(arguments_json).get("path") is None
