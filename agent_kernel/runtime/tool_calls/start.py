"""The start of a call together with its decision: one commit, where nothing has to be waited for in between."""

from collections.abc import Iterator
from contextlib import contextmanager

from agent_kernel.log.tool_calls import Proposal
from agent_kernel.protocol.views import ToolCallView
from agent_kernel.runtime.state.run import ActiveRun
from agent_kernel.runtime.tool_calls.execution import carry_out


def is_for_page(run: ActiveRun, tool_name: str) -> bool:
    return run.registry.declaration(tool_name).runs_in == "page"


@contextmanager
def turn_at_once(run: ActiveRun, call: ToolCallView | Proposal, *, wanted: bool = True) -> Iterator[bool]:
    """For the commit of a decision: whether the call can start with it, because its turn at the kernel is free. The
    block ends with `set_going`, which keeps the turn; where the block fails, the turn is given back."""
    if not wanted or is_for_page(run, call.tool_name) or not run.calls.scheduler.take(call.read_only):
        yield False
        return
    try:
        yield True
    except BaseException:
        run.calls.scheduler.release(call.read_only)
        raise


def set_going(run: ActiveRun, *now: ToolCallView) -> None:
    """Carry out those of the calls that started with their decision. Not the graph's business: it may not have come
    to them yet, and waits for these tasks when it does."""
    for call in now:
        if call.state == "executing":
            task = run.outside_graph(_see_to_its_end(run, call), f"started {call.tool_call_id}")
            run.calls.add_started(call.tool_call_id, task)


async def _see_to_its_end(run: ActiveRun, call: ToolCallView) -> None:
    try:
        await carry_out(run, call)
    finally:
        run.calls.scheduler.release(call.read_only)
