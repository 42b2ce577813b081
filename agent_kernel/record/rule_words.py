"""Rules in words: what one says, without its digests, and where it comes from."""

import re
from typing import assert_never

from agent_kernel.protocol.views import RuleView
from agent_kernel.protocol.vocabulary import Scope
from agent_kernel.record.words import RULE_TEXTS

_DIGEST = re.compile(f"({'|'.join(RULE_TEXTS)})[0-9a-f]{{64}}")


def rule_text(text: str) -> str:
    """A rule to be read: `allow run_shell inside walls, this exact call`."""
    return _DIGEST.sub(lambda found: RULE_TEXTS[found[1]], text)


_WHERE: dict[Scope, str] = {
    "once": "this call",
    "run": "this run",
    "conversation": "this conversation",
    "project": "this project",
    "user": "all notebooks",
}


def rule_words(rule: RuleView) -> str:
    """The origin of a rule: `all notebooks, saved by ana on 2026-11-22`, `this notebook's code`."""
    match rule.origin:
        case "saved":
            where = _WHERE[rule.scope] if rule.scope is not None else "saved"
            by = f", saved by {rule.made_by}" if rule.made_by else ", saved"
            return f"{where}{by}{f' on {rule.made_at[:10]}' if rule.made_at else ''}"
        case "code":
            return "this notebook's code"
        case "site":
            return "this site"
        case "folder":
            return rule.made_by or "a file in the notebook's folder"
        case _:
            assert_never(rule.origin)
