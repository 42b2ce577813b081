"""Saves and removes always-allow rules, and applies them to the runs that are under way."""

import sqlite3
from collections.abc import Iterable

from agent_kernel.approvals.user_rules import UserRule, UserRules
from agent_kernel.errors import AlreadyDecided, ConfigurationError, IllegalTransition, InvalidArguments
from agent_kernel.log import audit, client_calls, saved_rules
from agent_kernel.log.runs import ConversationRow
from agent_kernel.log.saved_rules import add_rule, revoke_rule, rules_in_force
from agent_kernel.protocol.lists import ClientView
from agent_kernel.protocol.vocabulary import DecidedBy, Scope
from agent_kernel.runtime.state.active_run import ActiveRun
from agent_kernel.runtime.tool_calls.effective_policy import effective_policy, read_stored_policy, scope_keys
from agent_kernel.runtime.tool_calls.policy_check import by_policy, check_policy
from agent_kernel.runtime.tool_calls.tool_call import commit_verdict

DENY_ALL = "deny *"


def save(
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


def remove(
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
        remove(sql, rule.rule_id or "", decided_by)
    save(sql, row, "conversation", DENY_ALL, decided_by)


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
        judgement = await check_policy(
            run, call.tool_name, call.tool_input, edited=call.edited, cap=None if decide else "ask"
        )
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
