"""Serialises run specifications, so that another process can continue a run."""

from dataclasses import replace
from functools import lru_cache

from pydantic import TypeAdapter

from agent_kernel.approvals.folder_file import FolderLimits
from agent_kernel.log.runs import StoredSpec
from agent_kernel.runtime.settings import RunSpec
from agent_kernel.tools.declaration import ToolDeclaration

_SPEC: TypeAdapter[RunSpec] = TypeAdapter(RunSpec)
_LIMITS: TypeAdapter[FolderLimits] = TypeAdapter(FolderLimits)
_TOOLS: TypeAdapter[tuple[ToolDeclaration, ...]] = TypeAdapter(tuple[ToolDeclaration, ...])


def stored(spec: RunSpec) -> StoredSpec:
    return StoredSpec(
        spec=_SPEC.dump_json(replace(spec, prompt="", tools=()), exclude_defaults=True).decode(),
        tools=_TOOLS.dump_json(spec.tools).decode(),
        widget_model_id=spec.widget_model_id,
    )


def limits_text(spec: RunSpec) -> str:
    return _LIMITS.dump_json(spec.limits).decode()


def restored(row: StoredSpec, prompt: str) -> RunSpec:
    """The specification. The prompt comes from the run's view, because it is stored only once."""
    return replace(_SPEC.validate_json(row.spec), prompt=prompt, tools=_tools(row.tools))


@lru_cache(maxsize=32)
def _tools(text: str) -> tuple[ToolDeclaration, ...]:
    """Cached: most runs have the same tools as another."""
    return _TOOLS.validate_json(text)
