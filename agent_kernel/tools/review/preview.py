"""Makes the preview of a call (code or a diff in place of JSON) and its warnings."""

from collections.abc import Iterable, Iterator
from typing import Any

from agent_kernel.errors import InvalidArguments
from agent_kernel.protocol.views import Preview, Warning
from agent_kernel.tools.arguments import parse
from agent_kernel.tools.review.findings import Finding, gather
from agent_kernel.tools.review.hidden import hidden_characters
from agent_kernel.tools.review.python import read_python
from agent_kernel.tools.review.shell_effects import read_command
from agent_kernel.tools.review.shown_diff import ShownDiff, shown_diff

_LANGUAGES = {
    "py": "python",
    "md": "markdown",
    "sh": "shell",
    "js": "javascript",
    "ts": "typescript",
    "json": "json",
    "sql": "sql",
    "html": "html",
    "css": "css",
    "yaml": "yaml",
    "yml": "yaml",
    "toml": "toml",
    "r": "r",
}
CHANGES_FILES = frozenset({"write_file", "edit_file"})
"""The tools whose previews the executor makes, because it has the files."""


def preview(name: str, arguments: str | dict[str, Any]) -> Preview | None:
    """The preview of a call; `None` if clients show the arguments themselves."""
    given = _read(arguments)
    match name:
        case "run_python" if isinstance(given.get("code"), str):
            return Preview(kind="code", language="python", text=given["code"])
        case "insert_cell" | "edit_cell" if isinstance(given.get("source"), str):
            language = "markdown" if given.get("cell_type") == "markdown" else "python"
            return Preview(kind="code", language=language, text=given["source"])
        case "run_shell" if isinstance(given.get("command"), str):
            return Preview(kind="code", language="shell", text=given["command"])
        case "edit_file" if isinstance(given.get("old_text"), str) and isinstance(given.get("new_text"), str):
            shown = diff(given["old_text"], given["new_text"], str(given.get("path", "")))
            return Preview(kind="diff", language="piece", text=shown.text, left_out=shown.left_out)
        case "write_file" if isinstance(given.get("content"), str):
            # The file's content is not known here, and a diff without it could show a replaced file as new.
            ending = str(given.get("path", "")).rpartition(".")[2].lower()
            return Preview(kind="code", language=_LANGUAGES.get(ending, ""), text=given["content"])
        case _:
            return None


def warnings(name: str, arguments: str | dict[str, Any]) -> list[Warning]:
    """The warnings found by reading a call. It may do more."""
    return gather(_findings(name, _read(arguments)))


def titles(found: Iterable[Warning]) -> list[str]:
    """What a rule `within` warnings calls them: `Writes files`."""
    return [warning.title.rstrip(":") for warning in found]


def diff(old: str, new: str, path: str) -> ShownDiff:
    """The diff of two pieces of a file."""
    if not old.endswith("\n") and not new.endswith("\n"):
        # Pieces of a file rarely end with a line end; only a difference in that is worth a line.
        old, new = f"{old}\n" if old else "", f"{new}\n" if new else ""
    return shown_diff(old, new, path)


def _findings(name: str, arguments: dict[str, Any]) -> Iterator[Finding]:
    for characters in map(hidden_characters, _strings(arguments)):
        yield from (("Hidden characters:", character) for character in characters)
    match name:
        case "run_python":
            yield from read_python(str(arguments.get("code", "")))
        case "insert_cell" | "edit_cell" if arguments.get("run") is True and arguments.get("cell_type") != "markdown":
            yield from read_python(str(arguments.get("source", "")))
        case "run_shell":
            yield from read_command(str(arguments.get("command", "")))
        case "edit_file" | "write_file":
            yield "Writes files:", str(arguments.get("path", ""))
        case _:
            return


def _strings(value: Any) -> Iterator[str]:
    pending = [value]
    while pending:
        item = pending.pop()
        if isinstance(item, str):
            yield item
        elif isinstance(item, dict):
            pending.extend(item.keys())
            pending.extend(item.values())
        elif isinstance(item, list):
            pending.extend(item)


def _read(arguments: str | dict[str, Any]) -> dict[str, Any]:
    try:
        return parse(arguments)
    except InvalidArguments:
        return {}
