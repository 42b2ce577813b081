"""A call whose outcome nobody knows is looked at by a person before the model goes on: the model would build on it.

What a person says about it is in the ledger, so it outlives the process. Such a call is never run again by itself; the
same call is asked about, whatever the policy.
"""

from collections.abc import Sequence

from agent_kernel.errors import AlreadyDecided, IllegalTransition
from agent_kernel.log import call_notes, inbox, tool_calls
from agent_kernel.log.audit import entries
from agent_kernel.protocol.events import ToolAnsweredEvent
from agent_kernel.protocol.views import ToolCallView
from agent_kernel.protocol.vocabulary import UnknownAnswer
from agent_kernel.runtime.state.commits import Commit
from agent_kernel.runtime.state.run import ActiveRun
from agent_kernel.runtime.turns.budget_pause import heard, wait_for_client


async def looked_at(run: ActiveRun, unknown: Sequence[ToolCallView]) -> bool:
    """Wait until a person has said something about each of these calls of a step; where nobody can be asked, or nobody
    answers in a site's time, the model is told at once. False where the run is over, or suspended."""
    for call in unknown:
        # Somebody without a page may answer while one is waited for.
        if not _answered(run, call) and await wait_for_client(run) and not _answered(run, call):
            await heard(run, call.tool_call_id)
        if run.suspended or run.is_ending:
            return False
    return True


def _answered(run: ActiveRun, call: ToolCallView) -> bool:
    return call.unknown_answer is not None or run.waits.is_answered(call.tool_call_id)


async def answer(run: ActiveRun, call: ToolCallView, said: UnknownAnswer, decided_by: str | None) -> None:
    """Commit what a person says about a call whose outcome is unknown, and let the run go on. The first answer wins.

    Raises `AlreadyDecided`, and `IllegalTransition` for any other call.
    """
    if call.state != "unknown":
        raise IllegalTransition(f"The call {call.tool_call_id} is {call.state}: its outcome is not in question.")

    def work(commit: Commit) -> inbox.KeptMessage | None:
        if not call_notes.answer_unknown(commit.sql, commit.number, call.tool_call_id, said):
            first = tool_calls.read_call(commit.sql, commit.number, call.tool_call_id)
            raise AlreadyDecided("Already decided: somebody has answered for this call.", first.model_dump())
        entries.record_unknown_answer(commit.sql, call, said, decided_by)
        commit.emit(
            ToolAnsweredEvent(run_id=call.run_id, tool_call_id=call.tool_call_id, answer=said, decided_by=decided_by)
        )
        if said == "continue":
            return None
        return inbox.keep(commit.sql, commit.number, call.run_id, again(call))

    message = await run.commit(work)
    if message is not None:
        run.inbox.add(message)
    run.waits.answer(call.tool_call_id)


async def leave(run: ActiveRun, decided_by: str | None) -> None:
    """Whoever asks for something new has looked: the model is told, and goes on."""
    number, run_id = run.conversation.number, run.run_id
    calls = await run.log.read(lambda sql: tool_calls.list_calls(sql, conversation=number, run_id=run_id))
    for call in calls:
        if call.state == "unknown" and call.unknown_answer is None:
            await answer(run, call, "continue", decided_by)


def again(call: ToolCallView) -> str:
    """What the model is told where a person wants a call once more."""
    return f"Try this call again: {call.tool_name} with {call.tool_input}"
