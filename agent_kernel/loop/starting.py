"""The start of a call together with its decision: one commit, where nothing has to be waited for in between."""

from collections.abc import Iterator
from contextlib import contextmanager

from agent_kernel.log.ledger import Proposal
from agent_kernel.loop.run import ActiveRun
from agent_kernel.protocol.views import ToolCallView


def is_for_page(run: ActiveRun, tool_name: str) -> bool:
    return run.registry.declaration(tool_name).runs_in == "page"


@contextmanager
def turn_at_once(run: ActiveRun, call: ToolCallView | Proposal, *, wanted: bool = True) -> Iterator[bool]:
    """For the commit of a decision: whether the call can start with it, because its turn at the kernel is free. The
    turn is then held until the call's task has seen it to its end, and given back where the commit fails."""
    if not wanted or is_for_page(run, call.tool_name) or not run.scheduler.take(call.read_only):
        yield False
        return
    run.open.started.add(call.tool_call_id)
    try:
        yield True
    except BaseException:
        end_turn(run, call)
        raise


def end_turn(run: ActiveRun, call: ToolCallView | Proposal) -> None:
    run.open.started.discard(call.tool_call_id)
    run.scheduler.release(call.read_only)
