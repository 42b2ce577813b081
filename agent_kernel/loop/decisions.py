"""A person's decision on a waiting call: checked, committed, then acted on."""

from agent_kernel.errors import AlreadyDecided, InvalidArguments
from agent_kernel.log import ledger
from agent_kernel.log.rules import add_rule, rules_in_force
from agent_kernel.loop import calls, tool_messages
from agent_kernel.loop.effective_policy import effective_policy, saved_rule, scope_keys
from agent_kernel.loop.judging import judge
from agent_kernel.loop.run import ActiveRun, Commit
from agent_kernel.loop.tool_step import decide_without_asking
from agent_kernel.protocol.commands import Decision
from agent_kernel.protocol.views import RuleView, ToolCallView
from agent_kernel.tools.arguments import digest
from agent_kernel.tools.preview import preview, warnings


async def decide(run: ActiveRun, approval_id: str, decision: Decision, decided_by: str | None) -> ToolCallView:
    """Commit a person's decision and wake the call. The first decision wins.

    Raises `AlreadyDecided`, `DigestMismatch`, and `InvalidArguments` where an edit does not fit the tool or is denied
    by policy; the call then goes on waiting.
    """
    edit = await _edit(run, approval_id, decision) if decision.approved else None
    verdict = ledger.Verdict(decision.approved, "user", decision.reason, decided_by, decision.scope, edit)
    denial = tool_messages.denied("by the user", decision.reason)
    keys = scope_keys(run.setting.conversation)

    def work(commit: Commit) -> tuple[ToolCallView, list[RuleView]]:
        decided = calls.decide(commit, approval_id, verdict, denial=denial, seen_digest=decision.digest)
        if not decision.approved or decision.scope == "once":
            return decided, []
        add_rule(commit.sql, decision.scope, keys[decision.scope], saved_rule(decided))
        return decided, rules_in_force(commit.sql, keys)

    decided, saved = await run.commit(work)
    run.decisions.resolve(approval_id, decided)
    if saved:
        await _apply_new_rule(run, saved)
    return decided


async def _edit(run: ActiveRun, approval_id: str, decision: Decision) -> ledger.Edit | None:
    """The arguments that replace the model's, or `None` where nothing was changed."""
    if decision.edited_input is None:
        return None
    call = await run.setting.log.read(lambda sql: ledger.find_approval(sql, approval_id))
    if call.state != "awaiting_approval":
        return None  # the ledger will say that it was decided
    tool_input = run.registry.validate(call.tool_name, decision.edited_input)
    if digest(tool_input) == call.digest:
        return None
    judgement = await judge(run, call.tool_name, tool_input, edited=True)
    if judgement.approval == "deny":
        raise InvalidArguments(f"The changed call can't be approved. {judgement.reason}")
    return ledger.Edit(
        tool_input=tool_input,
        digest=digest(tool_input),
        warnings=tuple(warnings(call.tool_name, tool_input)),
        preview=preview(call.tool_name, tool_input),
    )


async def _apply_new_rule(run: ActiveRun, saved: list[RuleView]) -> None:
    """Show the new rule in the header, and judge the calls that still wait again: it may cover them."""
    await run.show_policy(*effective_policy(run.setting.settings, run.spec, saved))
    number, run_id = run.setting.conversation.number, run.view.run_id
    waiting = await run.setting.log.read(lambda sql: ledger.list_calls(sql, conversation=number, run_id=run_id))
    for call in waiting:
        if call.state != "awaiting_approval":
            continue
        judgement = await judge(run, call.tool_name, call.tool_input, edited=call.edited)
        if judgement.approval == "allow":
            try:
                decided = await decide_without_asking(run, call, ledger.Verdict(True, "policy", decided_by=None))
            except AlreadyDecided:
                continue
            run.decisions.resolve(call.approval_id, decided)
