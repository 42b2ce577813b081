"""The policy that is in force for a run: what its notebook chose, capped by the site, with the rules people saved."""

import sqlite3
from dataclasses import dataclass
from pathlib import PurePosixPath

from agent_kernel.approvals.policy import Policy
from agent_kernel.approvals.rules import Rule
from agent_kernel.log.rules import rules_in_force
from agent_kernel.log.runs import ConversationRow, policy_of_run
from agent_kernel.loop.settings import BrainSettings, RunSpec
from agent_kernel.protocol.views import PolicyView, RuleView
from agent_kernel.protocol.vocabulary import PolicyMode, Scope


def scope_keys(conversation: ConversationRow) -> dict[Scope, str]:
    """What a rule of each scope is bound to: this conversation, the notebook's folder, everything of this user."""
    folder = str(PurePosixPath(conversation.notebook_path or "").parent)
    return {"conversation": conversation.conversation_id, "project": folder, "user": ""}


@dataclass(frozen=True, slots=True)
class Standing:
    """What the log has to say about a run's policy."""

    mode: PolicyMode | None
    rules: list[RuleView]


def read_standing(sql: sqlite3.Connection, row: ConversationRow, run_id: str) -> Standing:
    return Standing(policy_of_run(sql, run_id), rules_in_force(sql, scope_keys(row)))


def effective_policy(settings: BrainSettings, spec: RunSpec, standing: Standing) -> tuple[Policy, PolicyView]:
    """A site that caps the mode below `allow` also takes away the notebook's own allowing rules: a file that somebody
    sent must not be able to approve itself."""
    chosen = Policy(default=standing.mode or "ask").capped(settings.policy_cap).default
    own = spec.rules
    if settings.policy_cap not in (None, "allow"):
        own = tuple(text for text in own if Rule.parse(text).verb != "allow")
    policy = Policy(rules=(*settings.site_rules, *own, *(rule.text for rule in standing.rules)), default=chosen)
    return policy, PolicyView(mode=chosen, rules=standing.rules, cap=settings.policy_cap)
