"""The policy that is in force for a run: what its notebook chose, capped by the site, with the rules people saved."""

from pathlib import PurePosixPath

from agent_kernel.approvals.policy import Policy
from agent_kernel.approvals.rules import Rule
from agent_kernel.log.runs import ConversationRow
from agent_kernel.loop.settings import BrainSettings, RunSpec
from agent_kernel.protocol.views import PolicyView, RuleView
from agent_kernel.protocol.vocabulary import Scope


def scope_keys(conversation: ConversationRow) -> dict[Scope, str]:
    """What a rule of each scope is bound to: this conversation, the notebook's folder, everything of this user."""
    folder = str(PurePosixPath(conversation.notebook_path or "").parent)
    return {"conversation": conversation.conversation_id, "project": folder, "user": ""}


def effective_policy(settings: BrainSettings, spec: RunSpec, saved: list[RuleView]) -> tuple[Policy, PolicyView]:
    """A site that caps the mode below `allow` also takes away the notebook's own allowing rules: a file that somebody
    sent must not be able to approve itself."""
    chosen = Policy(default=spec.policy or "ask").capped(settings.policy_cap).default
    own = spec.rules
    if settings.policy_cap not in (None, "allow"):
        own = tuple(text for text in own if Rule.parse(text).verb != "allow")
    policy = Policy(rules=(*settings.site_rules, *own, *(rule.text for rule in saved)), default=chosen)
    return policy, PolicyView(mode=chosen, rules=saved)
