"""Always-allow rules that a person made, as rows. A rule is revoked, never deleted."""

import sqlite3
import uuid
from collections.abc import Iterable
from typing import Any

from agent_kernel.errors import UnknownRule
from agent_kernel.protocol.events import utc_now
from agent_kernel.protocol.lists import ListedRule
from agent_kernel.protocol.views import RuleView
from agent_kernel.protocol.vocabulary import Scope

_IN_FORCE = (
    "SELECT rule_id, scope, text, created_at, made_by, scope_key FROM rules "
    "WHERE revoked_at IS NULL AND (scope != 'run' OR scope_key IN (SELECT run_id FROM runs "
    "WHERE status IN ('queued', 'running'))) ORDER BY created_at"
)
"""A rule of a run ends with it."""


def add_rule(sql: sqlite3.Connection, scope: Scope, scope_key: str, text: str, made_by: str | None) -> tuple[str, str]:
    """Returns the new rule's id and the time at which it was made."""
    rule_id, now = f"rule_{uuid.uuid4().hex}", utc_now()
    sql.execute(
        "INSERT INTO rules (rule_id, scope, scope_key, text, created_at, made_by) VALUES (?, ?, ?, ?, ?, ?)",
        (rule_id, scope, scope_key, text, now, made_by),
    )
    return rule_id, now


def put_user_rules(sql: sqlite3.Connection, rules: Iterable[tuple[str, str, str, str | None]]) -> None:
    """Put these rules for all notebooks into force, and no others. Each is its id, text, time and maker."""
    rows = list(rules)
    sql.executemany(
        "INSERT OR IGNORE INTO rules (rule_id, scope, scope_key, text, created_at, made_by) "
        "VALUES (?, 'user', '', ?, ?, ?)",
        rows,
    )
    kept = {rule_id for rule_id, *_ in rows}
    for (rule_id,) in sql.execute("SELECT rule_id FROM rules WHERE scope = 'user' AND revoked_at IS NULL").fetchall():
        if rule_id not in kept:
            sql.execute("UPDATE rules SET revoked_at = ? WHERE rule_id = ?", (utc_now(), rule_id))


def rules_in_force(sql: sqlite3.Connection, keys: dict[Scope, str]) -> list[RuleView]:
    """The rules that cover a conversation, the oldest first. `keys` has the conversation's key in each scope."""
    return [RuleView(**_values(row)) for row in sql.execute(_IN_FORCE) if keys.get(row[1]) == row[5]]


def all_rules(sql: sqlite3.Connection) -> list[ListedRule]:
    """Every rule that is in force somewhere, the oldest first."""
    return [
        ListedRule(
            **_values(row),
            conversation_id=row[5] if row[1] == "conversation" else None,
            folder=row[5] if row[1] == "project" else None,
            run_id=row[5] if row[1] == "run" else None,
        )
        for row in sql.execute(_IN_FORCE)
    ]


def revoke_rule(sql: sqlite3.Connection, rule_id: str, keys: dict[Scope, str] | None) -> ListedRule:
    """Take a rule out of force. With `keys`, only one that covers the conversation with these. Raises `UnknownRule`."""
    covering = None if keys is None else {rule.rule_id for rule in rules_in_force(sql, keys)}
    rule = next((rule for rule in all_rules(sql) if rule.rule_id == rule_id), None)
    if rule is None or (covering is not None and rule_id not in covering):
        raise UnknownRule(rule_id)
    sql.execute("UPDATE rules SET revoked_at = ? WHERE rule_id = ?", (utc_now(), rule_id))
    return rule


def _values(row: Any) -> dict[str, Any]:
    rule_id, scope, text, created_at, made_by, _ = row
    return {
        "rule_id": rule_id,
        "scope": scope,
        "tool_name": text.split()[1],
        "text": text,
        "made_by": made_by,
        "made_at": created_at,
    }
