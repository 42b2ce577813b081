"""What the last run of a conversation was asked to be, and with which executor: for what is asked without saying so."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from agent_kernel.approvals.folder_file import NO_LIMITS
from agent_kernel.approvals.policy import Policy
from agent_kernel.errors import KernelGone
from agent_kernel.log import runs
from agent_kernel.protocol.ids import new_run_id
from agent_kernel.protocol.vocabulary import PolicyMode
from agent_kernel.runtime.runs.specs import restored
from agent_kernel.runtime.settings import RunSpec
from agent_kernel.tools.executor import ToolExecutor

if TYPE_CHECKING:
    from agent_kernel.runtime.conversation import Conversation
    from agent_kernel.runtime.runs.queue import Host

KERNEL_LOST = "This run can't be tried again: the notebook's kernel is no longer there. Run the cell again."


@dataclass(frozen=True, slots=True)
class LastRun:
    """What is kept of a run that is over: not its transcript, which is as long as the run was."""

    spec: RunSpec
    executor: ToolExecutor | None


def anew(last: LastRun | None, prompt: str, chosen: PolicyMode | None) -> RunSpec:
    """The same for another prompt, which no cell of the notebook shows. Of the policy that the last run named and the
    one that a person has `chosen` for the conversation, the stricter counts."""
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
        widget_model_id=None,
        replaces=(),
        continues=None,
        cell_id=None,
        limits=NO_LIMITS,
    )


async def find_executor(
    host: "Host", conversation: "Conversation", spec: RunSpec, last: LastRun | None
) -> ToolExecutor | None:
    """A run's executor: the host's, where it has kernels; else those that the last run had. Raises `KernelGone`."""
    executor_for = host.kernels.executor_for
    if conversation.kernel_id is None or executor_for is None:
        return last.executor if last is not None else None
    executor = await executor_for(conversation, spec)
    if executor is None:
        raise KernelGone(KERNEL_LOST)
    return executor


async def before_restart(host: "Host", conversation: "Conversation") -> LastRun | None:
    """The last run that the log knows of; `None` where there is none, or its kernel is gone and its tools with it."""
    stored = await host.log.read(lambda sql: runs.last_spec(sql, conversation.row.number))
    if stored is None:
        return None
    try:
        spec = restored(stored, prompt="")
        return LastRun(spec, await find_executor(host, conversation, spec, None))
    except (KernelGone, ValueError):  # the latter where another version of Agent Kernel wrote it
        return None
