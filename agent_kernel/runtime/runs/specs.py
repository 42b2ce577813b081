"""Serialises run specifications, so that another process can continue a run."""

from dataclasses import replace
from functools import lru_cache

import orjson
from pydantic import TypeAdapter

from agent_kernel.approvals.folder_limits import FolderLimits
from agent_kernel.log.runs import StoredSpec
from agent_kernel.protocol.decisions import ScriptedDecision
from agent_kernel.runtime.settings import RunSpec
from agent_kernel.tools.declaration import ToolDeclaration

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
    return replace(_SPEC.validate_python(orjson.loads(row.spec) | beside), tools=_tools(row.tools))


@lru_cache(maxsize=32)
def _tools(text: str) -> tuple[ToolDeclaration, ...]:
    """Cached: most runs have the same tools as another."""
    return _TOOLS.validate_json(text)
