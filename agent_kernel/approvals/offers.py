"""Makes the rules that are offered for a call, from narrow to wide. Each covers the call it is offered for."""

import glob
import itertools
import json
import re
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Any

from agent_kernel.approvals.rules import JudgedCall, leaves_walls, weigh
from agent_kernel.errors import ConfigurationError, InvalidArguments
from agent_kernel.protocol.views import RuleOffer, ToolCallView
from agent_kernel.protocol.vocabulary import Scope
from agent_kernel.tools.arguments import parse
from agent_kernel.tools.builtin.declarations import BUILTIN_NAMES, PARAMETERS, RUNS_TOO
from agent_kernel.tools.review.preview import titles
from agent_kernel.tools.review.shell_programs import first_words
from agent_kernel.tools.server_tools import DEFINITION, START_SERVERS
from agent_kernel.tools.walls.inside import is_inside

RULE_SCOPES: tuple[Scope, ...] = ("run", "conversation", "project", "user")

_SAME = {
    "run_python": "same code",
    "run_shell": "same command",
    "write_file": "same path, same content",
    "edit_file": "same path, same change",
}
_ANY = {"write_file": "any content", "edit_file": "any change"}
_READING = "a reading, and no wall"
_HARMLESS = "Python that, as far as it can be read, writes no files, uses no network and no shell"
_NOT_READ = frozenset({"Not checked", "Runs code it builds", "Hidden characters"})
"""Warnings of code of which a reading says too little for a rule."""
_LIKE = {None: "", True: " that also runs the cell", False: " that runs nothing"}
_LONGEST_COMMAND = 500
_LONGEST_VALUE = 60
_MOST_ARGUMENTS = 4
_PLAIN_WORD = re.compile(r"[A-Za-z0-9_./:=@%+-]+")
_ON_ONE_FILE = frozenset({"write_file", "edit_file", "read_file", "read_notebook"})


def every_call(call: ToolCallView) -> str:
    """The widest rule. A decision with a `scope` and no `rule` saves this one."""
    if call.tool_name == START_SERVERS:  # the yes is for exactly this file
        return f"allow {START_SERVERS} where digest is {call.digest}"
    widest = f"allow {call.tool_name}{_side(call)}{_pinned(call)}"
    return widest if (runs := _runs_cell(call)) is None else f"{widest} where run is {json.dumps(runs)}"


def _runs_cell(call: ToolCallView) -> bool | None:
    """Whether a change of a cell also runs it; `None` for a tool that has no such choice."""
    return parse(call.tool_input).get("run") is True if call.tool_name in RUNS_TOO else None


def _side(call: ToolCallView) -> str:
    """On which side of the walls a shell command runs, where it has a choice."""
    if leaves_walls(call.tool_name, parse(call.tool_input)):
        return " outside walls"
    return " inside walls" if call.tool_name == "run_shell" and _is_inside(call) else ""


def _definition(call: ToolCallView) -> str:
    """The digest of the definition of a server's tool, as its card is bound to it; empty for any other call."""
    base = call.preview.base if call.preview is not None else ""
    return base.removeprefix(DEFINITION) if base.startswith(DEFINITION) else ""


def _pinned(call: ToolCallView) -> str:
    return f" {DEFINITION}{found}" if (found := _definition(call)) else ""


def _is_inside(call: ToolCallView) -> bool | None:
    return is_inside(call.preview.base) if call.preview is not None and not _definition(call) else None


def offered_rules(call: ToolCallView) -> list[RuleOffer]:
    """The rules to choose from; an empty list if the arguments can't be read."""
    try:
        arguments = parse(call.tool_input)
    except InvalidArguments:
        return []
    found = [offer for offer in _candidates(call, arguments) if _covers(offer.text, call, arguments)]
    return [offer if offer.scopes else offer.model_copy(update={"scopes": list(RULE_SCOPES)}) for offer in found]


def with_offers(call: ToolCallView) -> ToolCallView:
    """A waiting call with its offered rules filled in."""
    if call.state != "awaiting_approval":
        return call
    return call.model_copy(update={"scopes": ["once", *RULE_SCOPES], "rules": offered_rules(call)})


def _candidates(call: ToolCallView, arguments: dict[str, Any]) -> Iterator[RuleOffer]:
    name = call.tool_name
    if name == "run_python":
        yield from _code_like(call)
    yield RuleOffer(
        text=f"allow {name}{_side(call)}{_pinned(call)} where digest is {call.digest}",
        label="This exact call",
        note=_SAME.get(name, "same arguments"),
        scopes=list(RULE_SCOPES[1:]),
    )
    if name == START_SERVERS:
        return
    path = call.place.spellings()[0] if call.place is not None and call.place.linked else arguments.get("path")
    command = arguments.get("command")
    if name in _ON_ONE_FILE and isinstance(path, str):
        yield from _files_like(name, path)
    elif name == "run_shell" and isinstance(command, str):
        yield from _commands_like(f"{name}{_side(call)}", command)
    elif name not in BUILTIN_NAMES and len(arguments) > 1:
        yield from itertools.islice(_arguments_like(name, _pinned(call), arguments), _MOST_ARGUMENTS)
    yield RuleOffer(
        text=every_call(call),
        label=f"Every {name} call{_side(call)}{_LIKE[_runs_cell(call)]}",
        note="any file, anywhere" if name in _ON_ONE_FILE else "any arguments",
    )
    yield RuleOffer(text="allow *", label="Every call", note="of every tool, within walls", scopes=["run"])


def _code_like(call: ToolCallView) -> Iterator[RuleOffer]:
    """Code that a card warns of no more than of this."""
    found = titles(call.warnings)
    if _NOT_READ.isdisjoint(found):
        others = ", ".join(title[0].lower() + title[1:] for title in found)
        yield RuleOffer(
            text=f"allow run_python where warnings within {json.dumps(found)}",
            label=f"Python that, as far as it can be read, does no more than this: {others}" if found else _HARMLESS,
            note=_READING,
        )


def _files_like(name: str, path: str) -> Iterator[RuleOffer]:
    """Files with the same suffix in the same folder, not below it."""
    file = PurePosixPath(path)
    folder = "" if str(file.parent) == "." else f"{file.parent}/".replace("//", "/")
    kind = f"{file.suffix[1:].upper()} files" if file.suffix else "Files"
    yield RuleOffer(
        text=f'allow {name} where path matches "{glob.escape(folder)}*{glob.escape(file.suffix)}"',
        label=f"{kind} in {folder or 'this folder'}",
        note=_ANY.get(name, "any part of it"),
    )


def _commands_like(name: str, command: str) -> Iterator[RuleOffer]:
    """Commands with the same program and first words, if one such pattern covers the whole line."""
    if len(command) > _LONGEST_COMMAND:
        return
    words = first_words(command)
    if words and all(map(_PLAIN_WORD.fullmatch, words)):
        yield RuleOffer(
            text=f'allow {name} where command matches "{" ".join(words)} *"',
            label=f"Commands that begin with {' '.join(words)}",
            note="any further words",
        )


def _arguments_like(name: str, pinned: str, arguments: dict[str, Any]) -> Iterator[RuleOffer]:
    """Calls with the same value of one argument. Texts come first, because they are the most specific."""
    for argument, value in sorted(arguments.items(), key=lambda item: not isinstance(item[1], str)):
        if isinstance(value, str):
            written, shown = f'"{value}"', f"“{value}”"
        elif value is None or isinstance(value, bool | int | float):
            written = shown = json.dumps(value)
        else:
            continue
        if len(written) <= _LONGEST_VALUE and written.isprintable():
            yield RuleOffer(
                text=f"allow {name}{pinned} where {argument} is {written}",
                label=f"Every {name} call where {argument} is {shown}",
                note="any other arguments",
            )


def _covers(text: str, call: ToolCallView, arguments: dict[str, Any]) -> bool:
    try:
        judged = JudgedCall(
            call.tool_name,
            arguments,
            call.digest,
            parameters=PARAMETERS.get(call.tool_name),
            place=call.place,
            inside=_is_inside(call),
            definition=_definition(call),
        )
        return weigh([text], judged).allows
    except ConfigurationError:
        return False  # the tool's or the argument's name does not fit the rules' syntax
