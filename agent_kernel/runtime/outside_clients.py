"""Agents outside: who asks for calls in which notebook."""

import sqlite3

from agent_kernel.log import client_calls, saved_rules
from agent_kernel.log.runs import ConversationRow
from agent_kernel.protocol.lists import ClientView
from agent_kernel.runtime.tool_calls.always_allow import DENY_ALL
from agent_kernel.runtime.tool_calls.effective_policy import scope_keys


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
