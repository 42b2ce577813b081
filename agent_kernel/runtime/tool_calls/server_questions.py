"""Questions that an MCP server, or the code of a call, asks during a call: each is an `ask_user` card of the run,
beside the model's calls."""

import time
from collections.abc import Sequence
from typing import Literal

from agent_kernel.log import tool_calls
from agent_kernel.protocol.ids import new_approval_id, new_tool_call_id
from agent_kernel.protocol.views import ToolCallView
from agent_kernel.protocol.vocabulary import CallState
from agent_kernel.runtime.state.active_run import ActiveRun
from agent_kernel.runtime.state.commits import Commit
from agent_kernel.runtime.tool_calls import transitions
from agent_kernel.tools import outcome_texts
from agent_kernel.tools.arguments import canonical, digest
from agent_kernel.tools.builtin.declarations import ASK_USER

WITHDRAWN = "The call that asked has ended."
NOT_KEPT = "A password was typed. It is not kept."
Line = Literal["text", "password"]


async def ask_person(
    run: ActiveRun, asking: ToolCallView, question: str, choices: Sequence[str], line: Line | None = None
) -> str | None:
    """The person's answer to a question of the server that carries out the call `asking`, or the `line` that its code
    asks for, of which a password is kept nowhere. `None` where nobody is there,
    or the question was skipped. The model hears of it by the call's result alone."""
    if not run.attended or asking.by == "script":
        return None
    arguments = canonical(
        {"question": question} | ({"choices": list(choices)} if choices else {}) | ({"line": line} if line else {})
    )
    proposal = tool_calls.Proposal(
        tool_call_id=new_tool_call_id(),
        approval_id=new_approval_id(),
        run_id=run.run_id,
        tool_name=ASK_USER,
        tool_input=arguments,
        digest=digest(arguments),
        read_only=False,
        recorded=False,
    )
    answered = run.calls.expect_answer(proposal.tool_call_id)

    def show(commit: Commit) -> None:
        transitions.propose(commit, proposal, None)
        verdict = tool_calls.Verdict(True, "policy")
        transitions.start(commit, transitions.apply_verdict(commit, proposal.approval_id, verdict, denial=""))

    await run.commit(show)
    started, said = time.monotonic(), WITHDRAWN
    state: CallState = "cancelled"
    try:
        run.note_time()
        outcome = await answered
        state, said = outcome.status, outcome.content
    finally:
        answered.cancel()
        run.note_time()
        text = outcome_texts.cancelled_before_start(said) if state == "cancelled" else said
        if state == "success" and line == "password":
            text = NOT_KEPT
        took = round((time.monotonic() - started) * 1000)

        def end(commit: Commit) -> None:
            transitions.settle(commit, proposal.tool_call_id, state, text, duration_ms=took)

        run.commit_soon(end)
    return said if state == "success" else None
