"""The servers that a notebook's folder brings (`.mcp.json`) start only after a person's yes, which is for exactly this
file. They are asked by a card of the run, which waits for nobody: the card stays when the run has ended, and the runs
after a yes have the tools."""

from agent_kernel.approvals.rules import JudgedCall, weigh
from agent_kernel.errors import InvalidArguments
from agent_kernel.log import tool_calls
from agent_kernel.log.runs import ConversationRow
from agent_kernel.log.store import Log
from agent_kernel.protocol.commands import Decision
from agent_kernel.protocol.views import Preview, ToolCallView
from agent_kernel.protocol.vocabulary import CallState
from agent_kernel.runtime.settings import RuntimeSettings
from agent_kernel.runtime.state.active_run import ActiveRun
from agent_kernel.runtime.state.commits import Commit, commit_to
from agent_kernel.runtime.tool_calls import decisions, server_cards, transitions
from agent_kernel.tools import outcome_texts
from agent_kernel.tools.arguments import canonical, digest, parse
from agent_kernel.tools.server_tools import START_SERVERS

QUESTION = "Start the MCP servers of this folder?"
NOT_HERE = "This server can't start them."
NO_EDIT = "What a folder's file says can't be changed on the card. Change the file; nothing was decided."


async def offer_servers(run: ActiveRun) -> None:
    """Show the card, where the folder has servers that no person has decided about."""
    servers = run.server_tools
    strict = run.policy.default in ("deny", "plan")
    if servers is None or not run.attended or run.script.given or run.spec.client_call is not None or strict:
        return
    found = await servers.unallowed(run.spec.notebook_path or run.conversation.notebook_path)
    if found is None:
        return
    preview = Preview(kind="code", text=str(found["servers"]), facts=[QUESTION])
    proposal = server_cards.own_proposal(run.run_id, START_SERVERS, found, preview)
    said = weigh(run.policy.rules, JudgedCall(START_SERVERS, found, proposal.digest))
    if said.denied_by is not None:
        return
    exact = exactly(proposal.digest)
    allowed = not said.asks and any(one.origin == "saved" and one.text == exact for one in run.view.policy.rules)

    def work(commit: Commit) -> ToolCallView | None:
        number = run.conversation.number
        for call in tool_calls.list_calls(commit.sql, conversation=number):
            if (call.tool_name, call.state) == (START_SERVERS, "awaiting_approval"):
                if call.digest == proposal.digest:
                    return None  # an earlier run asks already
                text = outcome_texts.superseded()
                transitions.settle(commit, call.tool_call_id, "superseded", text, reason="The file was changed.")
        call = transitions.propose(commit, proposal, None)
        if allowed:
            return server_cards.decide(commit, call, tool_calls.Verdict(True, "policy", source="rule"))
        transitions.request_approval(commit, call, None)
        return None

    begun = await run.commit(work)
    if begun is not None:
        await _carry_out(run.log, run.conversation, run.settings, begun)


async def decide(
    log: Log,
    row: ConversationRow,
    settings: RuntimeSettings,
    call: ToolCallView,
    decision: Decision,
    decided_by: str | None,
) -> ToolCallView:
    """A person's decision, also once the run is over. Raises `AlreadyDecided`, `DigestMismatch`, `InvalidArguments`."""
    if decision.edited_input is not None and digest(canonical(parse(decision.edited_input))) != call.digest:
        raise InvalidArguments(NO_EDIT)
    verdict = tool_calls.Verdict(decision.approved, "user", decision.reason, decided_by, decision.scope)
    exact = exactly(call.digest)
    if decision.rule not in (None, exact) or decision.scope == "run":
        message = f"The rule {decision.rule!r} was not offered for this call. Nothing was decided."
        raise InvalidArguments(message, field="rule")

    def work(commit: Commit) -> ToolCallView:
        if decision.approved and decision.scope != "once":
            decisions.save_rule(commit.sql, row, decision.scope, exact, decided_by, user_rules=settings.user_rules)
        return server_cards.decide(commit, call, verdict, decision.digest)

    decided = await commit_to(log, row, work)
    return await _carry_out(log, row, settings, decided)


def exactly(digest_of_call: str) -> str:
    """The only rule that starts servers: one that a person saved for this file. `allow *` starts none, nor does a rule
    of the notebook's code."""
    return f"allow {START_SERVERS} where digest is {digest_of_call}"


async def _carry_out(log: Log, row: ConversationRow, settings: RuntimeSettings, call: ToolCallView) -> ToolCallView:
    servers = settings.server_tools
    allowed = call.state == "executing"
    if servers is None:
        failed, said = True, NOT_HERE
    else:
        failed, said = await servers.decide(parse(call.tool_input), row.notebook_path, allowed=allowed)
    if not allowed:
        return call
    state: CallState = "error" if failed else "success"
    text = outcome_texts.ended(call, state, said)
    await commit_to(log, row, lambda commit: transitions.settle(commit, call.tool_call_id, state, text, duration_ms=0))
    return call.model_copy(update={"state": "approved", "started_at": None})
