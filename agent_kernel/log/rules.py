"""Always-allow rules that a person made, as rows. A rule is revoked, never deleted."""

import sqlite3
import uuid

from agent_kernel.errors import UnknownRule
from agent_kernel.protocol.events import utc_now
from agent_kernel.protocol.views import RuleView
from agent_kernel.protocol.vocabulary import Scope


def add_rule(sql: sqlite3.Connection, scope: Scope, scope_key: str, text: str) -> str:
    rule_id = f"rule_{uuid.uuid4().hex}"
    sql.execute("INSERT INTO rules VALUES (?, ?, ?, ?, ?, NULL)", (rule_id, scope, scope_key, text, utc_now()))
    return rule_id


def rules_in_force(sql: sqlite3.Connection, keys: dict[Scope, str]) -> list[RuleView]:
    """The rules whose scope covers a conversation: `keys` names its own key in each scope."""
    rows = sql.execute("SELECT rule_id, scope, scope_key, text FROM rules WHERE revoked_at IS NULL ORDER BY created_at")
    return [
        RuleView(rule_id=rule_id, scope=scope, tool_name=text.split()[1], text=text)
        for rule_id, scope, scope_key, text in rows
        if keys.get(scope) == scope_key
    ]


def revoke_rule(sql: sqlite3.Connection, rule_id: str, keys: dict[Scope, str]) -> RuleView:
    """Take a rule out of force, if it is one that covers the conversation with these keys. Raises `UnknownRule`."""
    rule = next((rule for rule in rules_in_force(sql, keys) if rule.rule_id == rule_id), None)
    if rule is None:
        raise UnknownRule(rule_id)
    sql.execute("UPDATE rules SET revoked_at = ? WHERE rule_id = ?", (utc_now(), rule_id))
    return rule
