"""One call under the run's policy: what the tool declares, then what policy makes of it. Fails closed."""

import asyncio
import logging
from functools import partial
from typing import Any

from agent_kernel.approvals.policy import JudgedCall, Judgement, Policy
from agent_kernel.errors import KernelGone
from agent_kernel.log.rules import rules_in_force
from agent_kernel.loop.run import ActiveRun
from agent_kernel.loop.tool_calls.effective_policy import scope_keys
from agent_kernel.loop.tool_calls.reading import read
from agent_kernel.protocol.vocabulary import Approval, DecidedBy, PolicyMode
from agent_kernel.tools.arguments import digest, parse
from agent_kernel.tools.preview import CHANGES_FILES

logger = logging.getLogger(__name__)
_JUDGE_SECONDS = 5.0


async def judge(
    run: ActiveRun, tool_name: str, tool_input: str, *, edited: bool, cap: PolicyMode | None = None
) -> Judgement:
    """Judge arguments that are valid, in their canonical form; under a mode no more permissive than `cap`."""
    arguments: dict[str, Any] = parse(tool_input)
    declaration = run.registry.declaration(tool_name)
    what = digest(tool_input)
    declared = await _declared(run, tool_name, tool_input)
    in_folder = _mode_edits(run, tool_name) and await _edits_in_folder(run, tool_name, tool_input)
    while True:
        # The policy of this moment: it may have been switched while the tool's own callable was asked.
        policy = run.policy
        call = JudgedCall(
            tool_name=tool_name,
            arguments=arguments,
            digest=what,
            declared=declared,
            checks_itself=declaration.approval == "dynamic",
            read_only=declaration.read_only,
            # What may have run already is not run again unasked, whatever rule would allow it.
            always_asks=edited or what in run.open.unknown,
            parameters=declaration.parameters,
            edits_in_folder=in_folder,
        )
        judgement = await read(tool_input, partial(policy.capped(cap).judge, call))
        if judgement.approval == "allow" and (removed := await _removed_elsewhere(run)) is not None:
            judgement = await read(tool_input, partial(removed.capped(cap).judge, call))
        if policy is run.policy:
            return judgement


async def _removed_elsewhere(run: ActiveRun) -> Policy | None:
    """The policy without saved rules that another process has taken out of force; `None` where there are none."""
    rules = run.view.policy.rules
    saved = {rule.rule_id for rule in rules if rule.rule_id is not None}
    if not saved:
        return None
    row = run.setting.conversation
    in_force = {rule.rule_id for rule in await run.setting.log.read(lambda sql: rules_in_force(sql, scope_keys(row)))}
    if saved <= in_force:
        return None
    kept = tuple(rule.text for rule in rules if rule.rule_id is None or rule.rule_id in in_force)
    return Policy(kept, run.policy.default)


def permits(judgement: Judgement, by: DecidedBy | None) -> bool:
    """Whether an approved call may start. Policy is judged again then: a rule may have changed while it waited."""
    return judgement.approval == "allow" or (judgement.approval == "ask" and by in ("user", "script"))


def asks_hands(run: ActiveRun, tool_name: str) -> bool:
    """Whether `judge` has to wait for the tool's own callable, or for where a file is."""
    return run.registry.declaration(tool_name).approval == "dynamic" or _mode_edits(run, tool_name)


def _mode_edits(run: ActiveRun, tool_name: str) -> bool:
    return run.policy.default == "edit" and tool_name in CHANGES_FILES


async def _edits_in_folder(run: ActiveRun, tool_name: str, tool_input: str) -> bool:
    """Known where the files are. No clear answer is a no."""
    hands = run.setting.hands
    if hands is None:
        return False
    try:
        async with asyncio.timeout(_JUDGE_SECONDS):
            return await hands.may_edit(tool_name, tool_input) is True
    except (TimeoutError, KernelGone) as error:
        logger.warning("The kernel did not say where the file of a %s is (%s): the call asks", tool_name, error)
        return False


async def _declared(run: ActiveRun, tool_name: str, tool_input: str) -> Approval:
    """The tool's own word. Its callable lives with the hands; no clear answer counts as `ask`."""
    approval = run.registry.declaration(tool_name).approval
    if approval != "dynamic":
        return approval
    hands = run.setting.hands
    if hands is None:
        return "ask"
    try:
        async with asyncio.timeout(_JUDGE_SECONDS):
            return await hands.judge(tool_name, tool_input)
    except (TimeoutError, KernelGone) as error:
        logger.warning("The approval rule of %s gave no answer (%s): the call asks", tool_name, error)
        return "ask"
