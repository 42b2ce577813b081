"""Agents outside: who asks for calls in which notebook, and how one is sent away."""

import sqlite3

from agent_kernel.log import client_calls, saved_rules
from agent_kernel.log.runs import ConversationRow, read_conversation
from agent_kernel.protocol.lists import ClientView
from agent_kernel.runtime.tool_calls import always_allow
from agent_kernel.runtime.tool_calls.effective_policy import scope_keys

DENY_ALL = "deny *"
SENT_AWAY = "The user has sent this client away."


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


def send_away(sql: sqlite3.Connection, client_id: str, decided_by: str | None) -> list[ConversationRow]:
    """Put a rule in place of a client's own ones that denies it everything in this notebook. Returns its conversations,
    whose calls are to be stopped. Raises `UnknownConversation`."""
    home = read_conversation(sql, client_id)
    for rule in saved_rules.rules_in_force(sql, {"conversation": scope_keys(home)["conversation"]}):
        always_allow.remove(sql, rule.rule_id or "", decided_by)
    always_allow.save(sql, home, "conversation", DENY_ALL, decided_by)
    return client_calls.conversations_at(sql, client_id)
