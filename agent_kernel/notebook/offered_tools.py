"""The tools that a run offers: the built-in ones, and those that the user passes."""

import functools
import json
import os
import re
import sys
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path, PurePath
from typing import Any

from ipykernel.connect import get_connection_file
from IPython.core.interactiveshell import InteractiveShell
from jupyter_core.paths import jupyter_config_path, jupyter_data_dir, jupyter_runtime_dir

from agent_kernel.errors import ConfigurationError, ToolDeclarationError, ToolFailed
from agent_kernel.models.images import NoPicture, decode, plain_picture
from agent_kernel.notebook.execution.backups import backups
from agent_kernel.notebook.execution.runner import ToolText, approved_path, current_entry
from agent_kernel.notebook.inspect import inspect_variables
from agent_kernel.protocol.calls import Place, Walls
from agent_kernel.protocol.file_cards import FileCard
from agent_kernel.tools.builtin.cells import read_notebook
from agent_kernel.tools.builtin.changes import planned_change, read_file, refuse_another_base
from agent_kernel.tools.builtin.declarations import BUILTIN_TOOLS, CHANGES_CELLS
from agent_kernel.tools.builtin.places import builtin_verdict
from agent_kernel.tools.builtin.prompt_pictures import attached_name, read_attachment, read_picture
from agent_kernel.tools.builtin.search_process import list_files, search_files
from agent_kernel.tools.builtin.shell import run_shell
from agent_kernel.tools.declaration import ToolDeclaration, cached, checked_timeouts
from agent_kernel.tools.function import as_tool
from agent_kernel.tools.langchain import is_langchain
from agent_kernel.tools.registry import ToolRegistry
from agent_kernel.tools.review.file_changes import file_card
from agent_kernel.tools.tool import Tool
from agent_kernel.tools.walls.inside import found_walls, is_inside, words_of
from agent_kernel.tools.walls.room import make_room

FOLDER = Path.cwd()
"""The notebook's folder: the working directory when this module was imported. The user's code may change it later."""

_SERVER_TOOL = re.compile(r"\.|__|\*")
"""What the name of a server's tool has, or a pattern of such: `github.*`, `github.search`, `github__search`."""

IN_FOLDER: Mapping[str, Callable[..., str]] = {
    "read_notebook": read_notebook,
    "list_files": list_files,
    "search_files": search_files,
    "read_file": read_file,
}
"""The tools that only look into the notebook's folder."""


def offered_tools(shell: InteractiveShell, wanted: Iterable[Any], *, has_cells: bool) -> tuple[Tool, ...]:
    """The tools of a run. Functions are added to the built-in tools; names select which of those are offered.

    `has_cells`: whether there is a server that can change the notebook's cells.

    Raises `ToolDeclarationError` if something is not a tool, or if two tools have the same name.
    """
    builtin = {
        tool.declaration.name: tool
        for tool in _builtin(shell)
        if has_cells or tool.declaration.name not in CHANGES_CELLS
    }
    named: list[Tool] = []
    own: list[Tool] = []
    for candidate in wanted:
        if not isinstance(candidate, str):
            own.append(as_tool(candidate))
        elif candidate in builtin:
            named.append(builtin[candidate])
        else:
            raise ToolDeclarationError(
                f"There is no tool {candidate!r}. The built-in tools are: {', '.join(builtin)}. "
                "Pass a function of your own as the function itself."
            )
    tools = (*(named or builtin.values()), *own)
    ToolRegistry(tool.declaration for tool in tools)
    return tools


def split_wanted(wanted: Iterable[Any], *, served: bool) -> tuple[tuple[str, ...] | None, list[Any]]:
    """The patterns for tools of MCP servers (`None`: all of them), and the other tools. Raises `ToolDeclarationError`
    where patterns are given and there is no Jupyter server that could have MCP servers, and for what is no list."""
    if isinstance(wanted, str) or not isinstance(wanted, Iterable):
        raise ToolDeclarationError("tools is a list, such as [my_function] or ['run_python', 'read_file'].")
    others = list(wanted)
    patterns = tuple(one for one in others if isinstance(one, str) and _SERVER_TOOL.search(one))
    others = [one for one in others if one not in patterns]
    if patterns and not served:
        raise ToolDeclarationError(
            f"{patterns[0]!r} is a tool of an MCP server. There are such only where a Jupyter server has the extension."
        )
    chosen = any(isinstance(one, str) for one in others)
    return (patterns or None) if not chosen else patterns, others


def with_timeouts(tools: tuple[Tool, ...], timeouts: Mapping[str, float]) -> tuple[Tool, ...]:
    """The tools with these time limits for one call, in seconds by tool name. Raises `ConfigurationError`."""
    if not isinstance(timeouts, Mapping):
        raise ConfigurationError("timeouts has seconds by the tool's name, such as {'run_python': 600}.")
    checked = checked_timeouts(timeouts, "timeouts")
    return _redeclared(tools, checked, "timeouts", lambda tool: replace(tool, timeout=checked[tool.name]))


def split_cache(
    names: Iterable[str], tools: tuple[Tool, ...], patterns: tuple[str, ...] | None, *, served: bool
) -> tuple[tuple[str, ...], set[str]]:
    """The names of tools of MCP servers, and of these tools. `patterns`: which tools of servers there are. Raises
    `ConfigurationError`: a pattern could take in a tool that changes something."""
    wanted = {names} if isinstance(names, str) else set(names)
    own = {tool.declaration.name for tool in tools}
    theirs = sorted(name for name in wanted - own if _SERVER_TOOL.search(name))
    if several := [name for name in theirs if any(one in name for one in "*?[")]:
        raise ConfigurationError(f"cache: name each tool that may be cached in place of {several[0]!r}.")
    if theirs and not served:
        raise ConfigurationError(
            f"cache: {theirs[0]!r} is a tool of an MCP server. There are such only where a Jupyter server has the "
            "extension."
        )
    return (tuple(theirs), wanted.difference(theirs)) if patterns != () else ((), wanted)


def with_cache(tools: tuple[Tool, ...], wanted: set[str]) -> tuple[Tool, ...]:
    """The tools, of which those with these names give a stored outcome again. Raises `ConfigurationError`."""
    return _redeclared(
        tools, wanted, "cache", lambda tool: tool if tool.cache_seconds is not None else cached(tool, cache=True)
    )


def _redeclared(
    tools: tuple[Tool, ...], names: Collection[str], said: str, change: Callable[[ToolDeclaration], ToolDeclaration]
) -> tuple[Tool, ...]:
    """The tools, of which those with these names are declared otherwise. Raises `ConfigurationError` for a name of
    none."""
    if unknown := sorted({*names} - {tool.declaration.name for tool in tools}):
        raise ConfigurationError(
            f"{said}: no tool of this agent is named {', '.join(map(repr, unknown))}. "
            f"It has {', '.join(tool.declaration.name for tool in tools)}."
        )
    return tuple(
        replace(tool, declaration=change(tool.declaration)) if tool.declaration.name in names else tool
        for tool in tools
    )


def named_tools(names: Iterable[str], namespace: Mapping[str, Any]) -> tuple[Any, ...]:
    """The tools of `--tools a,b`: a name is that of a variable that holds a tool, or else of a built-in tool."""
    found = ((name, namespace.get(name)) for name in names)
    # LangChain's tools can't be called.
    return tuple(value if callable(value) or is_langchain(value) else name for name, value in found)


def preview_of(name: str, arguments_json: str, place: Place | None) -> FileCard | None:
    """The card of a call that would change the file at `place`, with a diff to its present content. `None` for other
    calls. Safe in any thread."""
    try:
        arguments = json.loads(arguments_json)
        return file_card(FOLDER, name, arguments, place) if isinstance(arguments, dict) else None
    except (OSError, ValueError):
        return None  # the call itself reports the error


def picture_of(address: str, notebook: str | None, cell_id: str | None) -> bytes:
    """The bytes of a picture that a cell's prompt refers to, reduced to the size that models accept.

    `address` is a path or the name of the cell's attachment. Safe in any thread. Raises `ToolFailed`.
    """
    name = attached_name(address)
    try:
        if name is None:
            return plain_picture(read_picture(FOLDER, address)).data
        return plain_picture(decode(read_attachment(FOLDER, notebook, name, cell_id))).data
    except NoPicture as reason:
        raise ToolFailed(str(reason)) from None


def _builtin(shell: InteractiveShell) -> list[Tool]:
    functions = _functions(shell)

    def tool(declaration: ToolDeclaration) -> Tool:
        name = declaration.name
        return Tool(
            declaration,
            functions.get(name, _runs_elsewhere),
            builtin_verdict=lambda arguments: builtin_verdict(name, arguments, FOLDER),
        )

    return [tool(declaration) for declaration in BUILTIN_TOOLS]


def _functions(shell: InteractiveShell) -> dict[str, Callable[..., Any]]:
    def inspect(names: list[str] | None = None) -> str:
        return inspect_variables(shell.user_ns, shell.user_ns_hidden, names)

    def in_folder(function: Callable[..., str]) -> Callable[..., str]:
        return lambda **arguments: function(FOLDER, **arguments, approved=approved_path())

    return {
        "inspect_variables": inspect,
        **{name: in_folder(function) for name, function in IN_FOLDER.items()},
        "read_notebook": _read_notebook,
        "edit_file": functools.partial(_change_file, "edit_file"),
        "write_file": functools.partial(_change_file, "write_file"),
        "run_shell": _run_shell,
    }


def _read_notebook(path: str | None = None, **arguments: Any) -> str:
    """Without a path: the file of this notebook, where no server reads it in its page."""
    if path is not None:
        return read_notebook(FOLDER, path, **arguments, approved=approved_path())
    if (own := os.environ.get("JPY_SESSION_NAME")) is None:
        raise ToolFailed("It is not known here which file this notebook is. Give its path.")
    return read_notebook(FOLDER, PurePath(own).name, **arguments)


def _change_file(name: str, **arguments: Any) -> str:
    change = planned_change(FOLDER, name, arguments, approved_path())
    assert change is not None
    entry = current_entry.get()
    if entry is None:
        return backups.carry_out(None, change, arguments["path"])
    if entry.call.base:
        refuse_another_base(change, entry.call.base, arguments["path"])
    return backups.carry_out(entry.call.approval_id, change, arguments["path"])


def _run_shell(outside: bool = False, **arguments: Any) -> ToolText:
    """The output is shown as it comes, and is part of the result, which the walls around the command begin."""
    call = entry.call if (entry := current_entry.get()) is not None else None
    walls = (call.walls if call is not None else None) or Walls()
    found = found_walls()
    words = words_of(found, walls.level, outside=outside)
    if call is not None and call.base != words and (call.base or not is_inside(words)):
        approved = f" It was approved with: {call.base}." if call.base else ""
        raise ToolFailed(f"walls: {words}. Nothing ran: these are not the walls of its approval.{approved}")
    first = f"walls: {words}\n"
    _show(first)
    room = make_room(walls, FOLDER, _own_places()) if is_inside(words) else None
    try:
        return ToolText(first + run_shell(FOLDER, **arguments, emit=_show, found=found, room=room))
    except ToolFailed as error:
        raise ToolFailed(first + str(error), shown=error.shown) from None


def _own_places() -> list[Path]:
    """Where Jupyter keeps its secrets on this machine, which may not be the server's."""
    places = [jupyter_data_dir(), jupyter_runtime_dir(), *jupyter_config_path()]
    with suppress(RuntimeError):  # no kernel
        places.append(get_connection_file())
    return list(map(Path, places))


def _show(text: str) -> None:
    sys.stdout.write(text)


def _runs_elsewhere(**_: Any) -> str:
    raise NotImplementedError("this tool does not run in the kernel")
