"""Ending calls and runs from outside: Stop, Cancel, a new message, a dead kernel. Every waiting future is answered."""

import asyncio

from agent_kernel.errors import IllegalTransition, LogUnavailable
from agent_kernel.log import ledger
from agent_kernel.loop import calls, tool_messages
from agent_kernel.loop.run import ActiveRun, Commit
from agent_kernel.protocol.views import ToolCallView
from agent_kernel.protocol.vocabulary import CallState
from agent_kernel.tools.hands import Outcome

BY_USER = "By you."


async def stop_run(run: ActiveRun, reason: str = BY_USER) -> None:
    """Stop a run: waiting calls are cancelled, running ones interrupted, the model is cut off."""
    if run.stopping is not None:
        return
    run.stopping = reason
    if run.streaming is not None:
        run.streaming.cancel()
    try:
        await withdraw(run, "cancelled", reason)
    except LogUnavailable:
        run.stopping = None  # nothing was stopped: it can be asked for again
        raise
    await asyncio.gather(*(interrupt(run, tool_call_id) for tool_call_id in list(run.executing)))


async def withdraw(run: ActiveRun, target: CallState, reason: str) -> list[ToolCallView]:
    """End the calls that have not started, and wake whoever waits for them."""

    def work(commit: Commit) -> list[ToolCallView]:
        waiting = [
            call
            for call in ledger.list_calls(commit.sql, conversation=commit.number, run_id=run.view.run_id)
            if call.state in ("proposed", "awaiting_approval", "approved")
        ]
        return [_end(commit, call, target, reason) for call in waiting]

    ended = await run.commit(work)
    for call in ended:
        run.decisions.resolve(call.approval_id, call)
    for tool_call_id in run.answers.waiting():
        run.answers.resolve(tool_call_id, Outcome("cancelled", "The question was withdrawn."))
    return ended


async def cancel_call(run: ActiveRun, tool_call_id: str) -> None:
    """Cancel one call, wherever it is. Raises `IllegalTransition` if it has ended."""
    if run.answers.resolve(tool_call_id, Outcome("cancelled", "The user skipped the question.")):
        return
    if tool_call_id in run.executing:
        await interrupt(run, tool_call_id)
        return

    def work(commit: Commit) -> ToolCallView:
        return _end(commit, ledger.read_call(commit.sql, commit.number, tool_call_id), "cancelled", BY_USER)

    ended = await run.commit(work)
    run.decisions.resolve(ended.approval_id, ended)


async def interrupt(run: ActiveRun, tool_call_id: str) -> None:
    """Interrupt a running call; give it a while to end before its outcome counts as unknown."""
    execution = run.executing.get(tool_call_id)
    if execution is None or run.setting.hands is None:
        return
    await run.setting.hands.interrupt(tool_call_id)
    await asyncio.wait({execution}, timeout=run.setting.settings.stop_seconds)
    execution.cancel()


def _end(commit: Commit, call: ToolCallView, target: CallState, reason: str) -> ToolCallView:
    if call.state in ("executing", *_FINAL):
        raise IllegalTransition(f"The call {call.tool_call_id} is {call.state}: there is nothing to cancel.")
    text = tool_messages.superseded() if target == "superseded" else tool_messages.cancelled_before_start(reason)
    return calls.settle(commit, call.tool_call_id, target, text, reason=reason)


_FINAL = frozenset(state for state, targets in ledger.NEXT.items() if not targets)
