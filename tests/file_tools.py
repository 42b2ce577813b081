"""The tools that change files, called as the kernel calls them: the change is planned, then made."""

from pathlib import Path
from typing import Any

from agent_kernel.tools.builtin.changes import carry_out, planned_change


def write_file(root: Path, path: str, content: str, approved: Path | None = None) -> str:
    return _change(root, "write_file", {"path": path, "content": content}, approved)


def edit_file(
    root: Path, path: str, old_text: str, new_text: str, replace_all: bool = False, approved: Path | None = None
) -> str:
    arguments = {"path": path, "old_text": old_text, "new_text": new_text, "replace_all": replace_all}
    return _change(root, "edit_file", arguments, approved)


def _change(root: Path, name: str, arguments: dict[str, Any], approved: Path | None) -> str:
    change = planned_change(root, name, arguments, approved)
    assert change is not None
    return carry_out(change, arguments["path"])
