"""Carries out calls of MCP servers' tools, which need no kernel, and the search for such tools."""

import asyncio
from functools import partial

from agent_kernel.protocol.calls import ApprovedCall, Outcome
from agent_kernel.protocol.views import ToolCallView
from agent_kernel.runtime.state.active_run import ActiveRun
from agent_kernel.runtime.tool_calls.server_questions import ask_person
from agent_kernel.tools.arguments import parse
from agent_kernel.tools.executor import OutputSink
from agent_kernel.tools.server_tools import DEFINITION, definition_digest, find

NO_SERVERS = "The server of this tool is not configured here. Nothing ran."
REDEFINED = "The server defines this tool otherwise now than when the call was approved. Nothing ran."
TOLD_TO_STOP = "The server was told to stop; what it had done by then is not known."


def is_of_servers(run: ActiveRun, tool_name: str) -> bool:
    """Whether a call of this tool is nothing to the kernel: it is a server's, or the search for those."""
    return run.registry.declaration(tool_name).origin is not None or run.registry.searches(tool_name)


class ServerCalls:
    """The executor of one such call."""

    def __init__(self, run: ActiveRun, call: ToolCallView) -> None:
        self._run = run
        self._call = call
        self._task: asyncio.Task[Outcome] | None = None

    async def execute(self, call: ApprovedCall, emit: OutputSink) -> Outcome:
        run = self._run
        tool, servers = run.registry.declaration(call.tool_name), run.server_tools
        if tool.origin is None:  # the search, unless a recording has its results
            return Outcome("success", find(run.registry, str(parse(call.arguments_json).get("query", ""))))
        if servers is None:
            return Outcome("error", NO_SERVERS)
        if call.base != f"{DEFINITION}{definition_digest(tool)}":
            return Outcome("error", REDEFINED)
        path = run.spec.notebook_path or run.conversation.notebook_path
        work = servers.call(call, tool, path, emit, partial(ask_person, run, self._call))
        self._task = asyncio.create_task(work, name=f"server's part of {call.tool_call_id}")
        try:
            return await self._task
        except asyncio.CancelledError:
            current = asyncio.current_task()
            if current is not None and current.cancelling():
                raise
            return Outcome("cancelled", TOLD_TO_STOP)

    async def interrupt(self, approval_id: str) -> bool:  # noqa: ARG002 -- it has one call
        return self._task is not None and self._task.cancel()

    async def waiting_behind(self, approval_id: str) -> int | None:  # noqa: ARG002 -- it waits for nothing
        return None
