"""The card of a call of an MCP server's tool: its arguments, bound to how the server defines the tool, and what has
changed in that since a person allowed it."""

import json

from agent_kernel.approvals.rules import Rule
from agent_kernel.log.runs import declared_as
from agent_kernel.protocol.views import Preview, Warning
from agent_kernel.runtime.state.active_run import ActiveRun
from agent_kernel.tools.arguments import parse
from agent_kernel.tools.declaration import ToolDeclaration
from agent_kernel.tools.server_tools import DEFINITION, definition_digest, difference

CHANGED = "Changed since you allowed it:"
DESTRUCTIVE = "May destroy something, says its server:"
_NOT_KNOWN = "what it was then is not in the log any more"


async def server_tool_card(
    run: ActiveRun, tool_name: str, tool_input: str, found: list[Warning]
) -> tuple[Preview, list[Warning]]:
    """The preview and the warnings."""
    tool = run.registry.declaration(tool_name)
    assert tool.origin is not None
    hints = [Warning(title=DESTRUCTIVE, detail=tool.origin.server)] if "destructive" in tool.origin.hints else []
    shown = Preview(
        kind="code",
        language="json",
        text=json.dumps(parse(tool_input), indent=2, ensure_ascii=False),
        base=f"{DEFINITION}{definition_digest(tool)}",
    )
    return shown, [*await _changes(run, tool), *hints, *found]


async def _changes(run: ActiveRun, tool: ToolDeclaration) -> list[Warning]:
    """The difference to the definition that a person allowed, if that was another one."""
    rules = [Rule.parse(rule.text) for rule in run.view.policy.rules]
    allowed = [rule.definition for rule in rules if rule.tool == tool.name and rule.definition]
    if not allowed or definition_digest(tool) in allowed:
        return []
    known = await run.log.read(lambda sql: declared_as(sql, tool.name))
    before = [one for one in known if definition_digest(one) == allowed[-1]]
    return [Warning(title=CHANGED, detail=difference(before[0], tool) if before else _NOT_KNOWN)]
