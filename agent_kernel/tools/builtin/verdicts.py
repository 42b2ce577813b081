"""The rule for which calls of the built-in tools may run unasked."""

from pathlib import Path
from typing import Any

from agent_kernel.errors import ToolFailed
from agent_kernel.protocol.calls import Place, ToolVerdict
from agent_kernel.tools.builtin.changes import planned_change
from agent_kernel.tools.builtin.declarations import READS_FILES, WRITES_FILES
from agent_kernel.tools.builtin.places import locate, may_edit, may_read
from agent_kernel.tools.builtin.run_by_themselves import why_change_decides
from agent_kernel.tools.walls.probe import found_walls


def builtin_verdict(name: str, arguments: dict[str, Any], root: Path) -> ToolVerdict:
    """The verdict on a built-in tool: reading below `root`, the notebook's folder, is `allow`; all else, `ask`."""
    if name in ("inspect_variables", "ask_user"):
        return ToolVerdict("allow")
    if name == "read_notebook" and "path" not in arguments:
        return ToolVerdict("allow", locate(".", root))  # this notebook
    if name in READS_FILES:
        place = locate(arguments.get("path", "."), root)
        return ToolVerdict("allow" if may_read(place) else "ask", place)
    if name in WRITES_FILES:
        place = locate(arguments.get("path"), root)
        return ToolVerdict("ask", place, may_edit(place) and not _decides(name, arguments, root, place))
    if name == "run_shell":
        return ToolVerdict("ask", walls=found_walls())
    return ToolVerdict("ask")


def _decides(name: str, arguments: dict[str, Any], root: Path, place: Place) -> bool:
    """Whether the file is or becomes one whose content takes effect by itself."""
    try:
        change = planned_change(root, name, arguments, Path(place.path))
    except (ToolFailed, TypeError):
        return False  # the call fails, and is judged again when it runs
    return change is not None and bool(why_change_decides(change))
