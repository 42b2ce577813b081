"""Tools of MCP servers in a replay: the recording has their declarations and results, and no server is asked."""

from dataclasses import replace

from agent_kernel.models.base import Model
from agent_kernel.runtime.settings import RunSpec
from agent_kernel.tools.executor import ServerTools


def recorded_servers(model: Model) -> ServerTools | None:
    """What stands in for the servers, where the model plays a recording."""
    found: ServerTools | None = getattr(model, "server_tools", None)
    return found


def with_recorded_servers(spec: RunSpec, model: Model) -> RunSpec:
    """The specification with the recorded tools of servers in place of those that servers have now."""
    if recorded_servers(model) is None:
        return spec
    own = tuple(tool for tool in spec.tools if tool.origin is None)
    found = model.server_tools.declarations([tool.name for tool in own])  # type: ignore[attr-defined]  # a recording's
    return replace(spec, tools=(*own, *found))
