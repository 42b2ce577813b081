"""Cards of a run that the server proposes beside the model's calls, of which the model hears by the results of its own
calls alone: a question that an MCP server, or the code of a call, asks (`ask_user`), and the servers of a folder."""

import logging
import time
from collections.abc import Sequence
from typing import Any, Literal

from agent_kernel.errors import LogUnavailable
from agent_kernel.log import tool_calls
from agent_kernel.protocol.calls import Outcome
from agent_kernel.protocol.ids import new_approval_id, new_tool_call_id
from agent_kernel.protocol.views import Preview, ToolCallView
from agent_kernel.runtime.state.active_run import ActiveRun
from agent_kernel.runtime.state.commits import Commit
from agent_kernel.runtime.tool_calls import transitions
from agent_kernel.tools import outcome_texts
from agent_kernel.tools.arguments import canonical, digest
from agent_kernel.tools.builtin.declarations import ASK_USER

logger = logging.getLogger(__name__)
WITHDRAWN = "The call that asked has ended."
NOT_KEPT = "A password was typed. It is not kept."
Line = Literal["text", "password"]


def own_proposal(
    run_id: str, tool_name: str, arguments: dict[str, Any], preview: Preview | None = None
) -> tool_calls.Proposal:
    text = canonical(arguments)
    return tool_calls.Proposal(
        tool_call_id=new_tool_call_id(),
        approval_id=new_approval_id(),
        run_id=run_id,
        tool_name=tool_name,
        tool_input=text,
        digest=digest(text),
        read_only=False,
        recorded=False,
        preview=preview,
    )


def decide(
    commit: Commit, call: ToolCallView, verdict: tool_calls.Verdict, seen_digest: str | None = None
) -> ToolCallView:
    """Commit a decision, and that the call executes where it was approved."""
    denial = outcome_texts.denied("by the user", verdict.reason)
    decided = transitions.apply_verdict(commit, call.approval_id, verdict, denial=denial, seen_digest=seen_digest)
    return transitions.start(commit, decided) if verdict.approved else decided


async def ask_person(
    run: ActiveRun, asking: ToolCallView, question: str, choices: Sequence[str], line: Line | None = None
) -> str | None:
    """The person's answer to a question of the server that carries out the call `asking`, or the `line` that its code
    asks for, of which a password is kept nowhere. `None` where nobody is there, the question was skipped, or the log
    does not take its end. The model hears of it by the call's result alone."""
    asked = run.calls.questions.setdefault(asking.tool_call_id, [])
    if not run.attended or asking.by == "script":
        return None
    more = ({"choices": list(choices)} if choices else {}) | ({"line": line} if line else {})
    proposal = own_proposal(run.run_id, ASK_USER, {"question": question} | more)
    asked.append(proposal.tool_call_id)
    answered = run.calls.answers.expect(proposal.tool_call_id)

    def show(commit: Commit) -> None:
        decide(commit, transitions.propose(commit, proposal, None), tool_calls.Verdict(True, "policy"))

    started, outcome, ended = time.monotonic(), Outcome("cancelled", WITHDRAWN), False
    try:
        await run.commit(show)
        run.note_time()
        outcome = await answered
    except LogUnavailable as error:
        logger.warning("The call %s can't ask: %s", asking.tool_call_id, error)
    finally:
        answered.cancel()
        run.note_time()
        kept = Outcome("success", NOT_KEPT) if outcome.status == "success" and line == "password" else outcome
        took = round((time.monotonic() - started) * 1000)
        ended = await _ended(run, proposal.tool_call_id, kept, took)
    return outcome.content if ended and outcome.status == "success" else None


async def _ended(run: ActiveRun, tool_call_id: str, outcome: Outcome, took: int) -> bool:
    """Whether the log takes the end of a question; else it ends with the call that has asked."""
    try:
        await run.commit(lambda commit: end_question(commit, tool_call_id, outcome, took))
    except LogUnavailable as error:
        logger.warning("The answer to %s is given to nobody: %s", tool_call_id, error)
        return False
    return True


def end_question(commit: Commit, tool_call_id: str, outcome: Outcome, took: int | None = None) -> None:
    """End a question that is still open."""
    known = tool_calls.list_calls(commit.sql, conversation=commit.number, state="executing")
    if tool_call_id in [call.tool_call_id for call in known]:
        cancelled = outcome.status == "cancelled"
        text = outcome_texts.cancelled_before_start(outcome.content) if cancelled else outcome.content
        transitions.settle(commit, tool_call_id, outcome.status, text, duration_ms=took)
