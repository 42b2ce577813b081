"""Specifications of runs: stored, so that another process can continue them; of the next prompt, which comes without
its own; and with the tools of MCP servers."""

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

import orjson
from pydantic import TypeAdapter

from agent_kernel.approvals.folder_file import NO_LIMITS, FolderLimits
from agent_kernel.approvals.policy import Policy
from agent_kernel.errors import KernelGone
from agent_kernel.log import runs
from agent_kernel.log.runs import ConversationRow, StoredSpec
from agent_kernel.log.store import Log
from agent_kernel.protocol.decisions import ScriptedDecision
from agent_kernel.protocol.ids import new_run_id
from agent_kernel.protocol.vocabulary import PolicyMode
from agent_kernel.runtime.settings import RunSpec, RuntimeSettings
from agent_kernel.tools.declaration import ToolDeclaration
from agent_kernel.tools.executor import ToolExecutor
from agent_kernel.tools.server_tools import chosen, with_cache

_SPEC: TypeAdapter[RunSpec] = TypeAdapter(RunSpec)
_LIMITS: TypeAdapter[FolderLimits] = TypeAdapter(FolderLimits)
_SCRIPT: TypeAdapter[tuple[ScriptedDecision, ...]] = TypeAdapter(tuple[ScriptedDecision, ...])
_TOOLS: TypeAdapter[tuple[ToolDeclaration, ...]] = TypeAdapter(tuple[ToolDeclaration, ...])


_BESIDE = {"run_id", "prompt", "tools", "widget_model_id"}
"""Fields that the log stores elsewhere, once."""


def stored(spec: RunSpec) -> StoredSpec:
    return StoredSpec(
        run_id=spec.run_id,
        spec=_SPEC.dump_json(spec, exclude=_BESIDE, exclude_defaults=True).decode(),
        tools=_TOOLS.dump_json(spec.tools).decode(),
        widget_model_id=spec.widget_model_id,
    )


def limits_text(spec: RunSpec) -> str:
    return _LIMITS.dump_json(spec.limits).decode()


def script_text(spec: RunSpec) -> str:
    return _SCRIPT.dump_json(spec.script, exclude_defaults=True).decode()


def restored(row: StoredSpec, prompt: str) -> RunSpec:
    """The specification. The prompt is the run's. Raises `ValueError` for one that can't be read."""
    beside = {"run_id": row.run_id, "prompt": prompt, "widget_model_id": row.widget_model_id}
    return replace(_SPEC.validate_python(orjson.loads(row.spec) | beside), tools=_TOOLS.validate_json(row.tools))


logger = logging.getLogger(__name__)


async def with_server_tools(settings: RuntimeSettings, row: ConversationRow, spec: RunSpec) -> RunSpec:
    """The run with the tools of servers that it wants, as they are defined now. It may wait some seconds for servers
    that start. A tool of the notebook's own keeps its name."""
    own = tuple(tool for tool in spec.tools if tool.origin is None)
    servers = settings.server_tools
    if servers is None or spec.server_tools == () or spec.client_call is not None:
        return replace(spec, tools=own)
    found = await servers.offered(spec.notebook_path or row.notebook_path)
    names = {tool.name for tool in own}
    if taken := [tool.name for tool in found if tool.name in names]:
        logger.warning("Tools of MCP servers are left out, because the notebook has some of that name: %s", taken)
    theirs = with_cache(chosen(found, spec.server_tools, names), spec.server_cache)
    return replace(spec, tools=(*own, *theirs))


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
