"""Calls with an unknown outcome: a person answers about each before the model continues, which would build on it.

The answer is in the log, so it outlives the process. Such a call is never run again by itself; the same arguments
always need an approval, whatever the policy.
"""

from collections.abc import Sequence

from agent_kernel.errors import AlreadyDecided, IllegalTransition
from agent_kernel.log import stored_messages, tool_calls
from agent_kernel.log.audit import entries
from agent_kernel.protocol.events import ToolAnsweredEvent
from agent_kernel.protocol.views import ToolCallView
from agent_kernel.protocol.vocabulary import UnknownAnswer
from agent_kernel.runtime.state.active_run import ActiveRun
from agent_kernel.runtime.state.commits import Commit
from agent_kernel.runtime.turns.budget_pause import wait_for_answer, wait_for_client
from agent_kernel.tools.arguments import canonical, parse


async def wait_for_answers(run: ActiveRun, unknown: Sequence[ToolCallView]) -> bool:
    """Wait until a person has answered about each of these calls of a step. Unattended runs, and those without an
    answer in the site's time, continue, and so do those of a client, which is told. False where the run is over."""
    if run.spec.client_call is not None:
        return not run.is_ending
    for call in unknown:
        # An answer may come by HTTP while a page is awaited.
        if not _answered(run, call) and await wait_for_client(run) and not _answered(run, call):
            await wait_for_answer(run, call.tool_call_id)
        if run.is_ending:
            return False
    return True


def _answered(run: ActiveRun, call: ToolCallView) -> bool:
    return call.unknown_answer is not None or run.waits.is_answered(call.tool_call_id)


async def answer(run: ActiveRun, call: ToolCallView, said: UnknownAnswer, decided_by: str | None) -> None:
    """Commit a person's answer about a call with an unknown outcome, and let the run continue. The first answer wins.

    Raises `AlreadyDecided`, and `IllegalTransition` for any other call.
    """
    if call.state != "unknown":
        raise IllegalTransition(f"The call {call.tool_call_id} is {call.state}: its outcome is not in question.")

    def work(commit: Commit) -> stored_messages.KeptMessage | None:
        if not tool_calls.answer_unknown(commit.sql, commit.number, call.tool_call_id, said):
            first = tool_calls.read_call(commit.sql, commit.number, call.tool_call_id)
            raise AlreadyDecided("Already decided: somebody has answered for this call.", first.model_dump())
        entries.record_unknown_answer(commit.sql, call, said, decided_by)
        commit.emit(
            ToolAnsweredEvent(run_id=call.run_id, tool_call_id=call.tool_call_id, answer=said, decided_by=decided_by)
        )
        if said == "continue":
            return None
        return stored_messages.keep(commit.sql, commit.number, call.run_id, retry_text(call))

    message = await run.commit(work)
    if message is not None:
        run.inbox.add(message)
    run.waits.answer(call.tool_call_id)


async def continue_all(run: ActiveRun, decided_by: str | None) -> None:
    """Answer for all calls with an unknown outcome that the run continues: a new message was sent."""
    for call in await run.read_calls():
        if call.state == "unknown" and call.unknown_answer is None:
            await answer(run, call, "continue", decided_by)


def outside_walls(call: ToolCallView) -> ToolCallView:
    """The same command, outside the walls. Raises `IllegalTransition` for another tool's call."""
    if call.tool_name != "run_shell":
        raise IllegalTransition(f"There are no walls around {call.tool_name}.")
    return call.model_copy(update={"tool_input": canonical(parse(call.tool_input) | {"outside": True})})


def retry_text(call: ToolCallView) -> str:
    """The message to the model that asks for a call once more."""
    return f"Try this call again: {call.tool_name} with {call.tool_input}"
