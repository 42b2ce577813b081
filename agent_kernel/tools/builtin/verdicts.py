"""The rule for which calls of the built-in tools may run unasked."""

from pathlib import Path
from typing import Any

from agent_kernel.protocol.calls import ToolVerdict
from agent_kernel.tools.builtin.declarations import READS_FILES, WRITES_FILES
from agent_kernel.tools.builtin.places import locate, may_edit, may_read


def builtin_verdict(name: str, arguments: dict[str, Any], root: Path) -> ToolVerdict:
    """The verdict on a built-in tool: reading below `root`, the notebook's folder, is `allow`; all else, `ask`."""
    if name in ("inspect_variables", "ask_user"):
        return ToolVerdict("allow")
    if name in READS_FILES:
        place = locate(arguments.get("path", "."), root)
        return ToolVerdict("allow" if may_read(place) else "ask", place)
    if name in WRITES_FILES:
        place = locate(arguments.get("path"), root)
        return ToolVerdict("ask", place, may_edit(place, root))
    return ToolVerdict("ask")
