"""Translates IPython's syntax into Python, and finds the effects of magics by their first word.

The translation is our own, because the core does not import IPython.
"""

import re
from collections.abc import Iterator

from agent_kernel.tools.review import effects
from agent_kernel.tools.review.effects import words
from agent_kernel.tools.review.findings import Finding
from agent_kernel.tools.review.shell_effects import read_command
from agent_kernel.tools.review.texts import database_changes, variable_read

_CELL = re.compile(r"\s*%%(?!%)(\S+)[ \t]*(.*)\n?")
_LINE = re.compile(
    r"^([ \t]*+)((?:[\w,][\w, \t]*+=[ \t]*+)?)(!!?|%)(?![%=\s])((?:[^\\\n]|\\\n|\\.)*+\\?)$", re.MULTILINE
)
"""A line with a magic or a command, with those that continue it."""
_HELP = re.compile(r"^[ \t]*+(?:\?{1,2}[\w.*]++|%{0,2}[\w.*]++\?{1,2})[ \t]*+$", re.MULTILINE)
_RUNS_ITS_LINE = words("time timeit prun memit mprun lprun debug")
_TIMED = re.compile(rf"(?:%{{0,2}}(?:{'|'.join(_RUNS_ITS_LINE)})\b[ \t]*+(?:-[nrpTslfmu]\s*+\S++\s*+|-\w++\s*+)*+)++")
_WITHOUT_A_MARK = effects.MAGICS.keys() | effects.COMMAND_MAGICS | {"env", "set_env", "system", "sx"}
"""Magics that IPython runs without `%` where they are a cell's only line, and the line is no Python."""


def magic(name: str, line: str, body: str | None) -> Iterator[Finding]:
    """The effects of a magic. `body` is the rest of the cell for a cell magic."""
    shown = f"{'%' if body is None else '%%'}{name} {line}".strip()
    if name in effects.SHELL_MAGICS:
        command = line if body is None else body
        yield "Runs shell commands:", next(filter(str.strip, command.split("\n")), "")
        yield from read_command(command)
    elif name in effects.COMMAND_MAGICS:
        yield from read_command(f"{name} {line}") or [("Runs shell commands:", shown)]
    elif name in ("env", "set_env"):
        variable, *value = line.replace("=", " ", 1).split() or [""]
        if value or name == "set_env":
            yield "Changes the kernel:", variable
        else:
            yield variable_read(variable) if variable else ("Reads secrets:", shown)
    elif name == "sql":
        yield from database_changes(f"{line} {body or ''}")
    elif (effect := effects.MAGICS.get(name)) is not None:
        yield effect, line.split()[-1] if line.strip() and effect == "Writes files:" else shown
    elif name not in effects.HARMLESS_MAGICS:
        yield "Not checked:", f"what {shown.split()[0]} does"


def plain_python(code: str) -> str:
    """Translate magics into calls. A magic that runs Python is replaced by what it runs."""
    while (cell := _CELL.match(code)) is not None:
        (name, line), body = cell.groups(), code[cell.end() :]
        if name in _RUNS_ITS_LINE:
            code = _TIMED.sub("", f"{name} {line}", count=1) + f"\n{body}"
        elif name in ("capture", "px"):
            code = body
        else:
            return "" if name.endswith("?") else f"get_ipython().run_cell_magic({name!r}, {line!r}, {body!r})"
    if "\n" not in code.strip() and not _WITHOUT_A_MARK.isdisjoint(code.split()[:1]):
        code = f"%{code.strip()}"
    return _LINE.sub(_call, _HELP.sub("", code))


def _call(line: re.Match[str]) -> str:
    indent, target, mark, command = line.groups()
    command = command.replace("\\\n", " ").strip()
    if mark != "%":
        method = "getoutput" if target or mark == "!!" else "system"
        return f"{indent}{target}get_ipython().{method}({command!r})"
    if (timed := _TIMED.match(command)) is not None:
        return indent + target + _LINE.sub(_call, command[timed.end() :])
    name, _, rest = command.partition(" ")
    return f"{indent}{target}get_ipython().run_line_magic({name!r}, {rest.strip()!r})"
