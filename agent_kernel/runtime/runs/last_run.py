"""The last run of a conversation: its specification and executor, for prompts that come without their own."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

from agent_kernel.approvals.folder_limits import NO_LIMITS
from agent_kernel.approvals.policy import Policy
from agent_kernel.errors import KernelGone
from agent_kernel.log import runs
from agent_kernel.log.store import Log
from agent_kernel.protocol.ids import new_run_id
from agent_kernel.protocol.vocabulary import PolicyMode
from agent_kernel.runtime.runs.specs import restored
from agent_kernel.runtime.settings import RunSpec
from agent_kernel.tools.executor import ToolExecutor

FindExecutor = Callable[[RunSpec], Awaitable[ToolExecutor | None]]
"""Finds the executor for a run. Raises `KernelGone`."""


@dataclass(frozen=True, slots=True)
class LastRun:
    """The part of an ended run that is kept."""

    spec: RunSpec
    executor: ToolExecutor | None

    def without_tools(self) -> "LastRun":
        """Its kernel is gone, and its tools with it."""
        return LastRun(replace(self.spec, tools=()), None)


def next_spec(last: LastRun | None, prompt: str, chosen: PolicyMode | None) -> RunSpec:
    """The specification for another prompt, which no cell shows. Of the last run's policy and the one that a person has
    `chosen` for the conversation, the stricter applies."""
    if last is None:
        return RunSpec(run_id=new_run_id(), prompt=prompt)
    policy = last.spec.policy
    if policy is not None:
        policy = Policy(default=policy).capped(chosen).default
    return replace(
        last.spec,
        run_id=new_run_id(),
        prompt=prompt,
        policy=policy,
        script=(),
        widget_model_id=None,
        replaces=(),
        continues=None,
        cell_id=None,
        limits=NO_LIMITS,
        client_call=None,
        prompt_id=None,
        prompt_images=[],
    )


async def before_restart(log: Log, conversation: int, find_executor: FindExecutor) -> LastRun | None:
    """The last run that the log knows of; `None` where there is none. Without its tools where its kernel is gone."""
    stored = await log.read(lambda sql: runs.last_spec(sql, conversation))
    if stored is None:
        return None
    try:
        spec = restored(stored, prompt="")
    except ValueError:  # it can't be read
        return None
    try:
        return LastRun(spec, await find_executor(spec))
    except KernelGone:
        return LastRun(spec, None).without_tools()
