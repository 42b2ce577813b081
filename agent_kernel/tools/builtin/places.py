"""Resolves the path of a file tool's call, and says what may be done there unasked.

A path is resolved once for a call. Policy, rules and the card go by that place, and the call opens nothing else (see
`safe_open`).
"""

import os
from pathlib import Path, PurePosixPath
from typing import Any

from agent_kernel.errors import ToolFailed
from agent_kernel.protocol.calls import Place, ToolVerdict
from agent_kernel.tools.builtin.changes import planned_change
from agent_kernel.tools.builtin.declarations import READS_FILES, WRITES_FILES
from agent_kernel.tools.builtin.run_by_themselves import folded, why_change_decides, why_it_runs_there
from agent_kernel.tools.review.hidden import is_visible
from agent_kernel.tools.walls.inside import found_walls

UNKNOWN = Place("", linked=True)
"""A place that is not known, which no rule by path allows."""


def locate(path: object, root: Path) -> Place:
    """Resolve a path; `UNKNOWN` if it can't be used or its resolved form is not valid text."""
    if not isinstance(path, str):
        return UNKNOWN
    try:
        folder = os.path.realpath(root)
        whole = os.path.join(folder, path)  # noqa: PTH118 -- as `realpath` reads it, with its `..`
        real = os.path.realpath(whole)
        real.encode()
        found = Path(real)
        inside = found.relative_to(folder).as_posix() if found.is_relative_to(folder) else None
        return Place(path=real, inside=inside, linked=real != os.path.normpath(whole))
    except (ValueError, OSError):
        return UNKNOWN


def is_plain(name: str) -> bool:
    """Whether a path has no hidden part, and no invisible or control character."""
    if any(part.startswith(".") for part in PurePosixPath(name).parts):
        return False
    return is_visible(name)


def may_read(place: Place) -> bool:
    """Whether a place may be read unasked: it is in the notebook's folder and not hidden, because hidden files (`.env`,
    `.ssh`) often contain secrets."""
    return place.inside is not None and is_plain(place.inside)


def may_edit(place: Place) -> bool:
    """Whether a place may be written unasked in the mode `edit`: as `may_read`, but not what changes how things run:
    hidden files (`.agent-kernel.toml`, `.git`, `.venv`), what runs by itself, and notebooks, whose page would overwrite
    the change. What may be written decides with it: see `builtin_verdict`."""
    if not may_read(place) or place.inside in (None, "."):
        return False
    return not folded(place.inside).endswith(".ipynb") and not why_it_runs_there(place)


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
