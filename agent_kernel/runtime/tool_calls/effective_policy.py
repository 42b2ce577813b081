"""The effective policy of a run: the notebook's choice, capped by the site, with the rules that people saved."""

import asyncio
import logging
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath

from agent_kernel.approvals.folder_file import FolderLimits, stricter_walls
from agent_kernel.approvals.policy import Policy
from agent_kernel.approvals.rules import Rule
from agent_kernel.errors import ConfigurationError
from agent_kernel.log.runs import ConversationRow, policy_of_run
from agent_kernel.log.saved_rules import put_user_rules, rules_in_force
from agent_kernel.log.store import Log
from agent_kernel.protocol.views import PolicyView, RuleView
from agent_kernel.protocol.vocabulary import PolicyMode, RuleOrigin, Scope, WallLevel
from agent_kernel.runtime.settings import RunSpec, RuntimeSettings
from agent_kernel.tools.builtin.declarations import BUILTIN_NAMES

logger = logging.getLogger(__name__)
_MOST_NAMED = 10


def scope_keys(conversation: ConversationRow, run_id: str = "") -> dict[Scope, str]:
    """The key of each scope of rules: the run, the conversation (for a client's, its first one in the notebook),
    the notebook's folder, all of this user."""
    folder = str(PurePosixPath(conversation.notebook_path or "").parent)
    own = conversation.client_home or conversation.conversation_id
    return {"run": run_id, "conversation": own, "project": folder, "user": ""}


@dataclass(frozen=True, slots=True)
class StoredPolicy:
    """The log's part in a run's policy."""

    mode: PolicyMode | None
    rules: list[RuleView]


def read_stored_policy(sql: sqlite3.Connection, row: ConversationRow, run_id: str) -> StoredPolicy:
    return StoredPolicy(policy_of_run(sql, run_id), rules_in_force(sql, scope_keys(row, run_id)))


async def take_in_user_rules(log: Log, settings: RuntimeSettings) -> None:
    """Copy the rules for all notebooks into the log, where they are kept in a file of their own. If that can't be read,
    none of them is in force."""
    store = settings.user_rules
    if store is None:
        return
    try:
        rules = await asyncio.to_thread(store.read)
    except ConfigurationError as error:
        logger.warning("%s Calls that they allow ask.", error)
        rules = []
    rows = [(rule.rule_id, rule.text, rule.made_at, rule.made_by) for rule in rules]
    # A decision reads no rules: its call was judged before.
    await log.write(lambda transaction: put_user_rules(transaction.sql, rows))


def wall_level(site: WallLevel, limits: FolderLimits) -> WallLevel:
    """The level of the walls around shell commands: the site's, or that of the folder's files where it is stricter."""
    return stricter_walls(site, limits.walls)


def effective_policy(
    settings: RuntimeSettings, spec: RunSpec, stored_policy: StoredPolicy
) -> tuple[Policy, PolicyView]:
    """A site that caps the mode below `allow` also drops the notebook's own allowing rules: a notebook file must not be
    able to approve itself. Raises `ConfigurationError` for a rule that is not understood."""
    limits, notes = spec.limits, list(spec.limits.notes[:_MOST_NAMED])
    if limits.walls is not None and wall_level(settings.shell_walls, limits) != limits.walls:
        notes.append(
            f'{_named(limits.files)}: walls = "{limits.walls}" changes nothing: a file can only tighten, and this site '
            f"has {settings.shell_walls}."
        )
        limits = replace(limits, walls=None)
    folder_cap = limits.mode if not limits.closed else Policy(default=limits.mode or "ask").capped("ask").default
    chosen = Policy(default=stored_policy.mode or "ask").capped(settings.policy_cap).capped(folder_cap).default
    own = [_made("code", text) for text in spec.rules]
    dropped = [rule for rule in own if settings.policy_cap not in (None, "allow") and rule.text.startswith("allow")]
    site = [_made("site", text) for text in settings.site_rules]
    folder = [_made("folder", rule.text, rule.file) for rule in limits.rules]
    if limits.closed:
        folder.append(_made("folder", "ask *", _named(limits.files)))
    rules = [*site, *folder, *(rule for rule in own if rule not in dropped), *stored_policy.rules]
    view = PolicyView(
        mode=chosen,
        rules=rules,
        cap=settings.policy_cap,
        folder_cap=folder_cap,
        limited_by=limits.words(),
        notes=[*notes, *_dropped(dropped, settings), *_declared_allowed(spec, chosen), *_scripted(spec)],
    )
    return Policy(rules=tuple(rule.text for rule in rules), default=chosen), view


def _named(names: Sequence[str]) -> str:
    return ", ".join([*names[:_MOST_NAMED], *(["..."] if len(names) > _MOST_NAMED else [])])


def _made(origin: RuleOrigin, text: str, made_by: str | None = None) -> RuleView:
    rule = Rule.parse(text)
    return RuleView(tool_name=rule.tool, text=text.strip(), origin=origin, made_by=made_by)


def _dropped(rules: Sequence[RuleView], settings: RuntimeSettings) -> list[str]:
    if not rules:
        return []
    named = _named([rule.text for rule in rules])
    return [f"Not in force: {named}. This site allows {settings.policy_cap} at most, so code may not allow calls."]


def _scripted(spec: RunSpec) -> list[str]:
    """A note on the run's script. What it may approve is judged by call: see `scripted`."""
    if not spec.script:
        return []
    count = "1 decision" if len(spec.script) == 1 else f"{len(spec.script):,} decisions"
    if any(one.recorded for one in spec.script):
        return [f"A recording decides on calls that ask ({count}); a person decides on others, if one is there."]
    return [f"A script in the notebook's code decides on calls that ask ({count}); what it does not cover is denied."]


def _declared_allowed(spec: RunSpec, mode: PolicyMode) -> list[str]:
    """A note on the user's own tools that are declared to run unasked."""
    names = [
        tool.name for tool in spec.tools if tool.approval in ("allow", "dynamic") and tool.name not in BUILTIN_NAMES
    ]
    if not names or mode not in ("ask", "edit"):
        return []
    return [f"Run unasked where their own declaration says so: {_named(names)}."]
