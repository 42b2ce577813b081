"""Ends a call of a tool with a cache with the stored outcome of an earlier call with the same arguments.

Only for calls that policy allowed without asking anybody, and only where the kernel says that nothing has run since
that may change the outcome. It happens while the call has its turn at the kernel, where it would run otherwise.
"""

from dataclasses import dataclass

from agent_kernel.errors import KernelGone
from agent_kernel.protocol.events import utc_now
from agent_kernel.protocol.views import ToolCallView
from agent_kernel.runtime.state.active_run import ActiveRun
from agent_kernel.runtime.state.commits import Commit
from agent_kernel.runtime.state.outcome_cache import CallKey, StoredOutcome
from agent_kernel.runtime.tool_calls import transitions
from agent_kernel.tools import outcome_texts


@dataclass(frozen=True, slots=True)
class CacheEntry:
    """Where the outcome of a call is looked for, and kept."""

    key: CallKey
    version: str
    """Of the kernel's state before the call."""
    seconds: float


async def cache_entry(run: ActiveRun, call: ToolCallView) -> CacheEntry | None:
    """`None` for a call that has to run, and whose outcome is not kept."""
    declaration = run.registry.declaration(call.tool_name)
    if declaration.cache_seconds is None or not declaration.read_only or call.by != "policy" or run.executor is None:
        return None
    try:
        version = await run.executor.state_version()
    except KernelGone:
        return None
    if version is None:
        return None
    return CacheEntry(_key(call), version, declaration.cache_seconds)


def end_by_stored(run: ActiveRun, call: ToolCallView, entry: CacheEntry) -> bool:
    """End an executing call with a stored outcome, if there is one."""
    found = run.outcomes.find(entry.key, entry.version, entry.seconds)
    if found is None:
        return False
    stored, age = found
    result = outcome_texts.stored(age, stored.result)

    def work(commit: Commit) -> None:
        transitions.settle(
            commit,
            call.tool_call_id,
            "success",
            result,
            truncated=stored.truncated,
            output_file=stored.output_file,
            cached_at=utc_now(-age),
        )

    run.commit_soon(work)
    run.calls.add_result(call.tool_call_id, result, [])
    return True


def keep(run: ActiveRun, entry: CacheEntry, outcome: StoredOutcome) -> None:
    run.outcomes.keep(entry.key, entry.version, outcome)


def _key(call: ToolCallView) -> CallKey:
    return call.tool_name, call.digest
