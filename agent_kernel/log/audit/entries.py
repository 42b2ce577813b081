"""The kinds of audit entries: one function for each, called in the transaction that does what the entry records.

There is one for each decision on a tool call and one for each outcome, and one for whatever else a person decides. All
entries about a call have its `approval_id`. What the call is, and who decided, is in the decision; the others refer to
it by that id alone. The outcome of a call that was never decided says what the call was.
"""

import sqlite3
from collections.abc import Sequence
from typing import Any, Literal

from agent_kernel.log.audit.chain import Entry, append
from agent_kernel.protocol.events import PolicyEvent
from agent_kernel.protocol.views import BudgetRaise, RunView, ToolCallView
from agent_kernel.protocol.vocabulary import DecidedBy, Scope, UnknownAnswer

AuditedEntry = tuple[Entry, dict[str, Any]]
"""A decision or an outcome, for those who listen: its entry, and its fields, with those that say which call it is
about."""
_CALL_FIELDS = ("conversation_id", "run_id", "tool_call_id", "approval_id", "tool_name", "digest")


def record_decision(sql: sqlite3.Connection, call: ToolCallView, scope: Scope) -> AuditedEntry:
    """Add a decision, in the transaction that makes it. `call` is as the decision left it."""
    fields = {
        "at": call.decided_at,
        "decision": "denied" if call.state == "denied" else "approved",
        "scope": scope,
        "edited": call.edited or None,
        "by": call.by,
        "decided_by": call.decided_by,
        "reason": call.reason,
    }
    return _audited(append(sql, "decision", _identity(call) | _asked_by(sql, call) | fields), call)


def record_outcome(sql: sqlite3.Connection, call: ToolCallView) -> AuditedEntry:
    """Add the end of a call, in the transaction that ends it."""
    fields = {
        "at": call.ended_at,
        "state": call.state,
        "started_at": call.started_at,
        "duration_ms": call.duration_ms,
        "reason": call.reason,
        "cached_at": call.cached_at,
    }
    return _audited(append(sql, "outcome", _of_call(call) | _asked_by(sql, call) | fields), call)


def record_undo(
    sql: sqlite3.Connection,
    call: ToolCallView,
    decided_by: str | None,
    *,
    by: DecidedBy,
    redo: bool,
    refused: str | None = None,
) -> None:
    """Add, before it is done, that what a call wrote is taken back, or to `redo` written again, by the person
    `decided_by` if one is known; or, after that, why it was `refused`."""
    said = {"by": by, "decided_by": decided_by, "redo": redo or None, "refused": refused}
    append(sql, "undo", _of_call(call) | said)


def record_stop(
    sql: sqlite3.Connection,
    run: RunView,
    tool_call_ids: Sequence[str],
    *,
    whole_run: bool,
    by: DecidedBy,
    decided_by: str | None,
) -> None:
    """Add that a run was stopped, or one call of it cancelled. `tool_call_ids` are the calls that this ended before
    they started, and those that ran and were told to end; the end of each is an outcome entry of its own."""
    said = {"tool_call_ids": list(tool_call_ids), "whole_run": whole_run, "by": by, "decided_by": decided_by}
    append(sql, "stop", _of_run(run) | said)


def record_message(
    sql: sqlite3.Connection, run: RunView, decided_by: str | None, tool_call_ids: Sequence[str] = ()
) -> None:
    """Add that a person's message took the place of calls that had not started, each of which has an outcome too; or,
    where there are none, of a run that was paused at its budget."""
    said = {"tool_call_ids": list(tool_call_ids), "by": "user", "decided_by": decided_by}
    append(sql, "message", _of_run(run) | said)


def record_rule(
    sql: sqlite3.Connection,
    action: Literal["saved", "removed"],
    rule_id: str,
    *,
    conversation_id: str | None,
    text: str,
    scope: Scope | None,
    decided_by: str | None,
    by: DecidedBy = "user",
) -> None:
    """Add that an always-allow rule came into force or was taken out of it, in the transaction that does so.
    `conversation_id` is the one in which that was done, or that the rule was for; `None` where there is none."""
    fields = {
        "action": action,
        "rule_id": rule_id,
        "conversation_id": conversation_id,
        "rule": text,
        "scope": scope,
        "by": by,
        "decided_by": decided_by,
    }
    append(sql, "rule", fields)


def record_policy(sql: sqlite3.Connection, conversation_id: str, switch: PolicyEvent) -> None:
    """Add that a person switched the policy of a conversation, and of its run that was under way, if there was one."""
    fields = {
        "conversation_id": conversation_id,
        "run_id": switch.run_id,
        "before": switch.before,
        "after": switch.mode,
        **({"decide_waiting": True} if switch.decide_waiting else {}),
        "by": "user",
        "decided_by": switch.decided_by,
    }
    append(sql, "policy", fields)


def record_raise(sql: sqlite3.Connection, run: RunView, step: BudgetRaise) -> None:
    """Add that a person raised the budget of a run or of its conversation, or told a run that repeats itself to go on.
    `run` is as it was left by that."""
    fields = {
        "at": step.at,
        "pause_id": step.pause_id,
        "added": step.add.given(),
        "budget": run.budget.given(),
        **({"without_usd": True} if step.without_usd else {}),
        **({"of": step.of, "limits": limits} if (limits := _of_conversation(run, step)) is not None else {}),
        **({"repeated": step.repeated} if step.repeated else {}),
        "spent": run.usage.model_dump(),
        "by": "user",
        "decided_by": step.decided_by,
    }
    append(sql, "budget", _of_run(run) | fields)


def _of_conversation(run: RunView, step: BudgetRaise) -> dict[str, Any] | None:
    """The conversation's limits, where those were raised."""
    if step.of == "run" or run.conversation_budget is None:
        return None
    return run.conversation_budget.limits.given()


def record_unknown_answer(
    sql: sqlite3.Connection, call: ToolCallView, answer: UnknownAnswer, decided_by: str | None
) -> None:
    """Add what a person said about a call whose outcome is unknown."""
    said = {"answer": answer, "by": "user", "decided_by": decided_by}
    append(sql, "unknown", _of_call(call) | said)


def _audited(entry: Entry, call: ToolCallView) -> AuditedEntry:
    return entry, {name: getattr(call, name) for name in _CALL_FIELDS} | entry.fields


def _asked_by(sql: sqlite3.Connection, call: ToolCallView) -> dict[str, Any]:
    """The agent outside that asked for a call, by the name that it gave, and on whose behalf; nothing for a model."""
    client, user = sql.execute(
        "SELECT client, client_user FROM conversations WHERE conversation_id = ?", (call.conversation_id,)
    ).fetchone()
    return {"client": client, "asked_by": user}


def _of_run(run: RunView) -> dict[str, Any]:
    return {"conversation_id": run.conversation_id, "run_id": run.run_id}


def _of_call(call: ToolCallView) -> dict[str, Any]:
    """The reference to a call, for an entry that is not its decision."""
    return {"approval_id": call.approval_id} if call.by is not None else _identity(call)


def _identity(call: ToolCallView) -> dict[str, Any]:
    return {
        "conversation_id": call.conversation_id,
        "run_id": call.run_id,
        "tool_call_id": call.tool_call_id,
        "approval_id": call.approval_id,
        "tool_name": call.tool_name,
        "arguments": call.tool_input,
        "digest": call.digest,
    }
