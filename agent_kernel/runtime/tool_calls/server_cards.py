"""Cards of a run that the server proposes beside the model's calls, of which the model hears by the results of its own
calls alone: a question that an MCP server, or the code of a call, asks (`ask_user`), and the servers of a folder."""

import time
from collections.abc import Sequence
from typing import Any, Literal

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
    asks for, of which a password is kept nowhere. `None` where nobody is there,
    or the question was skipped. The model hears of it by the call's result alone."""
    asked = run.calls.questions.setdefault(asking.tool_call_id, [])
    if not run.attended or asking.by == "script":
        return None
    more = ({"choices": list(choices)} if choices else {}) | ({"line": line} if line else {})
    proposal = own_proposal(run.run_id, ASK_USER, {"question": question} | more)
    asked.append(proposal.tool_call_id)
    answered = run.calls.answers.expect(proposal.tool_call_id)

    def show(commit: Commit) -> None:
        decide(commit, transitions.propose(commit, proposal, None), tool_calls.Verdict(True, "policy"))

    try:
        await run.commit(show)
    except BaseException:
        answered.cancel()
        raise
    started, outcome = time.monotonic(), Outcome("cancelled", WITHDRAWN)
    try:
        run.note_time()
        outcome = await answered
    finally:
        answered.cancel()
        run.note_time()
        kept = Outcome("success", NOT_KEPT) if outcome.status == "success" and line == "password" else outcome
        took = round((time.monotonic() - started) * 1000)
        await run.commit(lambda commit: end_question(commit, proposal.tool_call_id, kept, took))
    return outcome.content if outcome.status == "success" else None


def end_question(commit: Commit, tool_call_id: str, outcome: Outcome, took: int | None = None) -> None:
    """End a question that is still open."""
    if tool_calls.read_call(commit.sql, commit.number, tool_call_id).state == "executing":
        cancelled = outcome.status == "cancelled"
        text = outcome_texts.cancelled_before_start(outcome.content) if cancelled else outcome.content
        transitions.settle(commit, tool_call_id, outcome.status, text, duration_ms=took)
