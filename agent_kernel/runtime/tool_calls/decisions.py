"""What a person decides: a waiting call, the rules of Always allow, the policy's mode, a client that is sent away.

Rules apply to all runs that are under way. Of modes a stricter one applies before its commit, a looser one after it, so
that no call starts under a policy that the log does not have. Waiting calls that the new mode denies are denied; those
that it allows are approved only where the switch says so.
"""

import sqlite3
from collections.abc import Iterable

from agent_kernel.approvals.offers import every_call, offered_rules
from agent_kernel.approvals.policy import Policy, exceeds
from agent_kernel.approvals.scripted import ScriptedDecision
from agent_kernel.approvals.user_rules import UserRule, UserRules
from agent_kernel.errors import AlreadyDecided, ConfigurationError, IllegalTransition, InvalidArguments
from agent_kernel.log import audit, client_calls, runs, saved_rules, tool_calls
from agent_kernel.log.runs import ConversationRow
from agent_kernel.log.saved_rules import add_rule, revoke_rule, rules_in_force
from agent_kernel.log.store import Log
from agent_kernel.protocol.commands import Decision
from agent_kernel.protocol.events import PolicyEvent
from agent_kernel.protocol.lists import ClientView
from agent_kernel.protocol.views import PolicySwitchView, RunView, ToolCallView
from agent_kernel.protocol.vocabulary import DecidedBy, PolicyMode, Scope
from agent_kernel.runtime.settings import RuntimeSettings
from agent_kernel.runtime.state.active_run import ActiveRun
from agent_kernel.runtime.state.commits import Commit, commit_to
from agent_kernel.runtime.tool_calls import transitions
from agent_kernel.runtime.tool_calls.effective_policy import effective_policy, read_stored_policy, scope_keys
from agent_kernel.runtime.tool_calls.policy_check import by_policy, check_policy
from agent_kernel.runtime.tool_calls.previews import checked_edit
from agent_kernel.runtime.tool_calls.script_decisions import note_decision
from agent_kernel.runtime.tool_calls.tool_call import commit_verdict
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
            save_rule(commit.sql, row, decision.scope, chosen, decided_by, run_id=run.run_id, user_rules=kept)
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


DENY_ALL = "deny *"


def save_rule(
    sql: sqlite3.Connection,
    row: ConversationRow,
    scope: Scope,
    text: str,
    decided_by: str | None,
    *,
    run_id: str = "",
    user_rules: UserRules | None = None,
) -> None:
    """Put a rule in force, in the transaction of its decision. Raises `InvalidArguments` where it can't be saved, which
    rolls the decision back."""
    rule_id, now = add_rule(sql, scope, scope_keys(row, run_id)[scope], text, decided_by)
    if scope == "user" and user_rules is not None:
        try:
            user_rules.add(UserRule(rule_id, text, now, decided_by))
        except ConfigurationError as error:
            raise InvalidArguments(f"{error} Nothing was decided.", field="scope") from error
    audit.record_rule(
        sql, "saved", rule_id, conversation_id=row.conversation_id, text=text, scope=scope, decided_by=decided_by
    )


def remove_rule(
    sql: sqlite3.Connection,
    rule_id: str,
    decided_by: str | None,
    row: ConversationRow | None = None,
    run_id: str = "",
    *,
    by: DecidedBy = "user",
    user_rules: UserRules | None = None,
) -> None:
    """Take a rule out of force; with a conversation, only one that covers it, or its
    run. Raises `UnknownRule`,
    `ConfigurationError`."""
    rule = revoke_rule(sql, rule_id, scope_keys(row, run_id) if row is not None else None)
    if rule.scope == "user" and user_rules is not None:
        user_rules.remove(rule_id)
    audit.record_rule(
        sql,
        "removed",
        rule_id,
        conversation_id=row.conversation_id if row is not None else rule.conversation_id,
        text=rule.text,
        scope=rule.scope,
        decided_by=decided_by,
        by=by,
    )


def send_away(sql: sqlite3.Connection, row: ConversationRow, decided_by: str | None) -> None:
    """Put a rule in place of a client's own ones that denies it everything in its notebook, until a person removes it.
    Raises `IllegalTransition` where no agent outside asks."""
    if row.client is None:
        raise IllegalTransition("No agent outside asks in this conversation.")
    key: dict[Scope, str] = {"conversation": scope_keys(row)["conversation"]}
    for rule in rules_in_force(sql, key):
        remove_rule(sql, rule.rule_id or "", decided_by)
    save_rule(sql, row, "conversation", DENY_ALL, decided_by)


async def rules_changed(runs: Iterable[ActiveRun]) -> None:
    """Apply the rules in force to these runs: a rule's scope may reach beyond its conversation."""
    for run in list(runs):
        await _refresh(run)


async def _refresh(run: ActiveRun) -> None:
    async with run.policy_lock:
        row, run_id = run.conversation, run.run_id
        stored_policy = await run.log.read(lambda sql: read_stored_policy(sql, row, run_id))
        policy, view = effective_policy(run.settings, run.spec, stored_policy)
        if policy == run.policy and view == run.view.policy:
            return
        await run.show_policy(policy, view)
        await check_waiting_calls(run)


async def check_waiting_calls(run: ActiveRun, *, decide: bool = False) -> None:
    """Check the waiting calls again: a new rule may cover them, and a stricter policy denies them, so that no card asks
    in vain. A looser mode approves those that it allows where a person has said so with `decide`."""
    for call in await run.read_calls():
        if call.state != "awaiting_approval" or call.tool_name not in run.registry:
            continue  # the start of a folder's servers is judged apart
        judgement = await check_policy(run, call.tool_name, call.tool_input, cap=None if decide else "ask")
        if judgement.approval == "ask":
            continue
        try:
            decided = await commit_verdict(run, call, by_policy(judgement))
        except (AlreadyDecided, IllegalTransition):
            continue
        run.calls.decisions.resolve(decided.approval_id, decided)


def read_clients(sql: sqlite3.Connection) -> list[ClientView]:
    """Each client in each notebook, in the order in which they came."""
    return [_view(sql, row) for row in client_calls.homes(sql)]


def _view(sql: sqlite3.Connection, row: ConversationRow) -> ClientView:
    rules = saved_rules.rules_in_force(sql, {"conversation": scope_keys(row)["conversation"]})
    return ClientView(
        client_id=row.conversation_id,
        client=row.client or "",
        user=row.client_user,
        notebook=row.notebook_path,
        kernel_id=row.kernel_id,
        last_asked=client_calls.last_asked(sql, row.conversation_id),
        waiting=client_calls.waiting(sql, row.conversation_id),
        rules=rules,
        sent_away=any(rule.text == DENY_ALL for rule in rules),
    )


def refuse_above(settings: RuntimeSettings, mode: PolicyMode, run: ActiveRun | None = None) -> None:
    """Refuse a mode above the cap of the site, or of the folder of the run that is under way. Raises
    `InvalidArguments`."""
    if exceeds(mode, settings.policy_cap):
        most = f"This site allows {settings.policy_cap}"
        raise InvalidArguments(f"{most} at most, not {mode}. Nothing was changed.", field="mode")
    folder = run.view.policy.folder_cap if run is not None else None
    if run is not None and exceeds(mode, folder):
        files = ", ".join(run.spec.limits.files[:3])
        raise InvalidArguments(f"{files} allows {folder} at most, not {mode}. Nothing was changed.", field="mode")


async def switch_policy(
    log: Log,
    settings: RuntimeSettings,
    row: ConversationRow,
    run: ActiveRun | None,
    mode: PolicyMode,
    decided_by: str | None,
    *,
    decide: bool = False,
) -> PolicySwitchView:
    """`run` is the one that is under way, if any. A switch to the mode in force changes nothing. With
    `decide`, the waiting calls that the mode allows are approved."""
    if run is None:
        before = await _mode_in_force(log, settings, row)
        switched = PolicyEvent(before=before, mode=mode, decided_by=decided_by)
        await commit_to(log, row, lambda commit: _note(commit, row, switched))
    else:
        async with run.policy_lock:
            before = run.policy.default
            if before != mode or decide:
                event = PolicyEvent(
                    run_id=run.run_id, before=before, mode=mode, decided_by=decided_by, decide_waiting=decide
                )
                await _put_in_force(run, event)
                await check_waiting_calls(run, decide=decide)
    run_id = run.run_id if run is not None else None
    waiting = await log.read(lambda sql: tool_calls.list_calls(sql, conversation=row.number, state="awaiting_approval"))
    return PolicySwitchView(
        conversation_id=row.conversation_id, run_id=run_id, before=before, mode=mode, waiting=len(waiting)
    )


async def _mode_in_force(log: Log, settings: RuntimeSettings, row: ConversationRow) -> PolicyMode:
    chosen = await log.read(lambda sql: runs.chosen_policy(sql, row.number))
    return Policy(default=chosen or "ask").capped(settings.policy_cap).default


async def _put_in_force(run: ActiveRun, event: PolicyEvent) -> None:
    policy = run.policy
    switched = Policy(policy.rules, event.mode)
    if exceeds(event.before, event.mode):
        run.policy = switched

    def work(commit: Commit, view: RunView) -> None:
        _note(commit, run.conversation, event)
        commit.save_run(view)

    notices = [*run.view.notices, run.notice(_said(event))]
    try:
        shown = run.view.policy.model_copy(update={"mode": event.mode})
        await run.commit_view(work, policy=shown, notices=notices)
    except BaseException:
        run.policy = policy
        raise
    run.policy = switched


def _note(commit: Commit, row: ConversationRow, switched: PolicyEvent) -> None:
    """Write the switch: for the conversation, the audit trail and the clients."""
    runs.choose_policy(commit.sql, commit.number, switched.mode)
    if switched.before != switched.mode or switched.decide_waiting:
        audit.record_policy(commit.sql, row.conversation_id, switched)
        commit.emit(switched)


def _said(switched: PolicyEvent) -> str:
    whom = f" by {switched.decided_by}" if switched.decided_by is not None else ""
    waiting = " It decided the calls that waited." if switched.decide_waiting else ""
    return f"The policy was switched{whom}: from {switched.before} to {switched.mode}.{waiting}"
