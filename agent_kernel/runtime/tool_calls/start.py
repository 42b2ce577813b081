"""Starts a call in the commit of its decision, where its turn at the kernel is free."""

from collections.abc import Iterator
from contextlib import contextmanager

from agent_kernel.log.tool_calls import Proposal
from agent_kernel.protocol.views import ToolCallView
from agent_kernel.runtime.state.run import ActiveRun
from agent_kernel.runtime.tool_calls.execution import carry_out


def is_for_page(run: ActiveRun, tool_name: str) -> bool:
    return run.registry.declaration(tool_name).runs_in == "page"


@contextmanager
def reserve_turn(run: ActiveRun, call: ToolCallView | Proposal, *, wanted: bool) -> Iterator[bool]:
    """For the commit of a decision: whether the call can start with it, because its turn at the kernel is free. The
    block calls `start_tasks`, whose task releases the turn; if the block fails, the turn is released here."""
    if not wanted or is_for_page(run, call.tool_name) or not run.calls.scheduler.take(call.read_only):
        yield False
        return
    try:
        yield True
    except BaseException:
        run.calls.scheduler.release(call.read_only)
        raise


def start_tasks(run: ActiveRun, *now: ToolCallView) -> None:
    """Carry out the calls that started with their decision. Their nodes in the graph, which may not have begun yet,
    wait for these tasks."""
    for call in now:
        if call.state == "executing":
            task = run.outside_graph(_carry_out(run, call), f"started {call.tool_call_id}")
            run.calls.add_started(call.tool_call_id, task)


async def _carry_out(run: ActiveRun, call: ToolCallView) -> None:
    try:
        await carry_out(run, call)
    finally:
        run.calls.scheduler.release(call.read_only)
