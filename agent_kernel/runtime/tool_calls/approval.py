"""Records the decision on a waiting call."""

from agent_kernel.approvals.offers import every_call, offered_rules
from agent_kernel.approvals.scripted import ScriptedDecision
from agent_kernel.errors import InvalidArguments
from agent_kernel.log import tool_calls
from agent_kernel.protocol.commands import Decision
from agent_kernel.protocol.views import ToolCallView
from agent_kernel.protocol.vocabulary import DecidedBy
from agent_kernel.runtime.state.active_run import ActiveRun
from agent_kernel.runtime.state.commits import Commit
from agent_kernel.runtime.tool_calls import always_allow, transitions
from agent_kernel.runtime.tool_calls.previews import checked_edit
from agent_kernel.runtime.tool_calls.script_decisions import note_decision
from agent_kernel.tools import outcome_texts
from agent_kernel.tools.arguments import parse


async def record_decision(
    run: ActiveRun, call: ToolCallView, decision: Decision, decided_by: str | None, by: DecidedBy = "user"
) -> ToolCallView:
    """Commit a decision, and wake the call. The first decision wins. Returns the call as it was decided.

    Raises `AlreadyDecided`, `DigestMismatch`, and `InvalidArguments` where an edit does not fit the tool or is denied
    by policy, or a rule was not offered; the call then goes on waiting.
    """
    edit = await _edit(run, call, decision) if decision.approved else None
    verdict = tool_calls.Verdict(decision.approved, by, decision.reason, decided_by, decision.scope, edit)
    denial = outcome_texts.denied("by policy" if by == "policy" else "by the user", decision.reason)

    row = run.conversation

    def work(commit: Commit) -> ToolCallView:
        decided = transitions.apply_verdict(
            commit, call.approval_id, verdict, denial=denial, seen_digest=decision.digest
        )
        if decision.approved and decision.scope != "once":
            chosen = _chosen_rule(decided, decision)
            kept = run.settings.user_rules
            always_allow.save(commit.sql, row, decision.scope, chosen, decided_by, run_id=run.run_id, user_rules=kept)
        return decided

    now = await run.commit(work)
    changed = parse(edit.tool_input) if edit is not None else None
    note_decision(run, call, ScriptedDecision(decision.approved, reason=decision.reason, edited_input=changed))
    run.calls.decisions.resolve(now.approval_id, now)
    return now


def _chosen_rule(call: ToolCallView, decision: Decision) -> str:
    """The rule to save: one of those that the card offered for the scope."""
    widest = every_call(call)
    if decision.rule is None or decision.rule == widest:
        return widest
    if decision.rule not in [offer.text for offer in offered_rules(call) if decision.scope in offer.scopes]:
        message = f"The rule {decision.rule!r} was not offered for this call. Nothing was decided."
        raise InvalidArguments(message, field="rule")
    return decision.rule


async def _edit(run: ActiveRun, call: ToolCallView, decision: Decision) -> tool_calls.Edit | None:
    """The arguments that replace the model's, or `None` where nothing was changed."""
    if decision.edited_input is None:
        return None
    if call.state not in tool_calls.UNDECIDED:
        return None  # the commit will find that it was decided
    return await checked_edit(run, call, decision.edited_input)
