"""Checks a call against the run's policy, with the verdict of its tool. Fails closed."""

import asyncio
import logging
from dataclasses import replace
from functools import partial
from typing import Any

from agent_kernel.approvals.policy import Judgement, Policy
from agent_kernel.approvals.rules import JudgedCall, leaves_walls
from agent_kernel.errors import KernelGone
from agent_kernel.log.saved_rules import rules_in_force
from agent_kernel.log.tool_calls import Verdict
from agent_kernel.own_thread import in_own_thread
from agent_kernel.protocol.calls import ToolVerdict, WallsFound
from agent_kernel.protocol.vocabulary import PolicyMode
from agent_kernel.runtime.state.active_run import ActiveRun
from agent_kernel.runtime.tasks import in_thread_if_long
from agent_kernel.runtime.tool_calls.effective_policy import scope_keys, take_in_user_rules, wall_level
from agent_kernel.tools.arguments import digest, parse
from agent_kernel.tools.builtin.declarations import CHANGES_CELLS, OPENS_FILES, is_shipped
from agent_kernel.tools.builtin.places import UNKNOWN
from agent_kernel.tools.builtin.run_by_themselves import why_it_runs
from agent_kernel.tools.server_tools import definition_digest
from agent_kernel.tools.walls.inside import is_inside, words_of

logger = logging.getLogger(__name__)
_VERDICT_SECONDS = 5.0


async def check_policy(run: ActiveRun, tool_name: str, tool_input: str, *, cap: PolicyMode | None = None) -> Judgement:
    """Judge valid arguments in their canonical form, under a mode no more permissive than `cap`."""
    arguments: dict[str, Any] = parse(tool_input)
    declaration = run.registry.declaration(tool_name)
    what = digest(tool_input)
    verdict = await _verdict(run, tool_name, tool_input)
    edits_in_folder = await _edits_in_folder(verdict)
    walls = around(run, tool_name, arguments, verdict.walls)
    while True:
        # Read after the executor was asked: the policy may have been switched meanwhile.
        policy = run.policy
        call = JudgedCall(
            tool_name=tool_name,
            arguments=arguments,
            digest=what,
            declared=verdict.approval,
            checks_itself=declaration.approval == "dynamic",
            read_only=declaration.read_only,
            # A call that may have run already always asks, whatever rule would allow it.
            always_asks=what in run.calls.unknown,
            parameters=declaration.parameters,
            edits_in_folder=edits_in_folder or _edits_cell(run, tool_name, arguments),
            place=verdict.place,
            inside=is_inside(walls),
            definition=definition_digest(declaration),
        )
        judgement = await in_thread_if_long(tool_input, partial(policy.capped(cap).judge, call))
        if judgement.approval == "allow" and (removed := await _removed_elsewhere(run)) is not None:
            judgement = await in_thread_if_long(tool_input, partial(removed.capped(cap).judge, call))
        if policy is run.policy:
            return replace(judgement, place=verdict.place, walls=walls)


def has_walls(run: ActiveRun, tool_name: str) -> bool:
    """Whether a tool is the shell command that runs inside walls, and not the notebook's own of the same name."""
    return tool_name == "run_shell" and is_shipped(run.registry.declaration(tool_name))


def around(run: ActiveRun, tool_name: str, arguments: dict[str, Any], found: WallsFound | None) -> str:
    """The walls around a call, in the words of its card; empty for any but a shell command."""
    if not has_walls(run, tool_name):
        return ""
    level = wall_level(run.settings.shell_walls, run.spec.limits)
    return words_of(found, level, outside=leaves_walls(tool_name, arguments))


def changes_cells(run: ActiveRun, tool_name: str) -> bool:
    """Whether a tool is one that acts on cells of this notebook, and not the notebook's own of the same name."""
    return tool_name in CHANGES_CELLS and any(is_shipped(tool) for tool in run.spec.tools if tool.name == tool_name)


def _edits_cell(run: ActiveRun, tool_name: str, arguments: dict[str, Any]) -> bool:
    """Whether the mode `edit` covers a call because it changes a cell of this notebook and runs nothing."""
    runs = tool_name == "run_cell" or arguments.get("run", False) is not False
    return changes_cells(run, tool_name) and not runs


async def _edits_in_folder(verdict: ToolVerdict) -> bool:
    """Whether the mode `edit` covers a call, by this server's Python as by the kernel's, which may be another: what
    shadows a module of either runs by itself."""
    if not verdict.may_edit or verdict.place is None:
        return False
    return not await in_own_thread(partial(why_it_runs, verdict.place))


async def _removed_elsewhere(run: ActiveRun) -> Policy | None:
    """The policy without saved rules that another process has removed; `None` where there are none."""
    rules = run.view.policy.rules
    saved = {rule.rule_id for rule in rules if rule.rule_id is not None}
    if not saved:
        return None
    keys = scope_keys(run.conversation, run.run_id)
    await take_in_user_rules(run.log, run.settings)
    in_force = {rule.rule_id for rule in await run.log.read(lambda sql: rules_in_force(sql, keys))}
    if saved <= in_force:
        return None
    kept = [rule for rule in rules if rule.rule_id is None or rule.rule_id in in_force]
    policy = Policy(tuple(rule.text for rule in kept), run.policy.default)
    if not run.policy_lock.locked():  # else its holder is about to show the policy in force
        async with run.policy_lock:
            await run.show_policy(policy, run.view.policy.model_copy(update={"rules": kept}))
    return policy


def by_policy(judgement: Judgement) -> Verdict:
    """The verdict on a call that policy allows or denies. It is bound to the place that was judged: the path may have
    led to another one when the card was shown."""
    allowed = judgement.approval == "allow"
    return Verdict(allowed, "policy", judgement.reason, place=judgement.place, source=judgement.source)


def asks_executor(run: ActiveRun, tool_name: str) -> bool:
    """Whether `check_policy` has to ask the executor: for the tool's own check, a file's place, or its walls."""
    return run.registry.declaration(tool_name).approval == "dynamic" or tool_name in {*OPENS_FILES, "run_shell"}


async def _verdict(run: ActiveRun, tool_name: str, tool_input: str) -> ToolVerdict:
    """The tool's own verdict and the place of its file, from the executor. Without a clear answer the call asks, and
    its place is one that no rule covers."""
    declared = run.registry.declaration(tool_name).approval
    verdict = ToolVerdict("ask" if declared == "dynamic" else declared)
    executor = run.executor
    if asks_executor(run, tool_name) and executor is not None:
        try:
            async with asyncio.timeout(_VERDICT_SECONDS):
                verdict = await executor.tool_verdict(tool_name, tool_input)
        except (TimeoutError, KernelGone) as error:
            logger.warning("The kernel said nothing of a call of %s (%s): the call asks", tool_name, error)
    if declared != "dynamic":
        verdict = replace(verdict, approval=declared)
    if tool_name != "run_shell":
        verdict = replace(verdict, walls=None)
    if tool_name not in OPENS_FILES:
        return replace(verdict, place=None)
    return verdict if verdict.place is not None else replace(verdict, place=UNKNOWN, may_edit=False)
