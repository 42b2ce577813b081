"""Adds the tools of MCP servers to a run that is asked for."""

import logging
from dataclasses import replace

from agent_kernel.log.runs import ConversationRow
from agent_kernel.runtime.settings import RunSpec, RuntimeSettings
from agent_kernel.tools.server_tools import chosen

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
    theirs = tuple(tool for tool in chosen(found, spec.server_tools) if tool.name not in names)
    return replace(spec, tools=(*own, *theirs))
