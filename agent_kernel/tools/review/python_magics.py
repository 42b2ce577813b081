"""Translates IPython's syntax into Python, and finds the effects of magics.

The translation is our own, because the core does not import IPython.
"""

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from agent_kernel.tools.review.effects import words
from agent_kernel.tools.review.findings import Effect, Finding
from agent_kernel.tools.review.queries import changes
from agent_kernel.tools.review.secrets import variable_read

Nested = Callable[[str], list[Finding]]
"""A function that reads nested code or a nested command."""

_MAGIC = re.compile(r"^(?P<target>[\w, \t]+=\s*)?(?P<mark>!!?|%%?)(?P<command>[^=\s].*)$")
_HELP = re.compile(r"^\s*(\?{1,2}[\w.*]+|%{0,2}[\w.*]+\?{1,2})\s*$")
_TOKEN = re.compile(
    r"(?P<triple>'''|\"\"\")|'(?:[^'\\]|\\.)*'?|\"(?:[^\"\\]|\\.)*\"?|(?P<comment>#)|(?P<open>[(\[{])|(?P<close>[)\]}])"
)
_CALLED_AT_ONCE = re.compile(r"^(?P<mark>[,;/])\s*(?P<function>[A-Za-z_][\w.]*)\s+(?P<arguments>\S.*)$")
_WORD = re.compile(r"^[A-Za-z_]\w*(?=\s|$)")
_OPERATOR = re.compile(r"^(?:[!=()<>,+*/%^&|:.\[@]|(?:if|in|is|and|or|not|for|else)\b)")

_WITHOUT_A_MARK = words("""
    rm mv cp mkdir rmdir ls cat ll less more man run load pip conda mamba uv cd env set_env reset reset_selective xdel
    alias system sx sc save macro rerun edit store logstart killbgscripts bookmark pushd popd
    """)
"""Magics that IPython runs without `%` where they are a cell's only line."""

_SHELLS = words("sx system sc sh bash zsh script ! cmd bg")
"""Magics that run their line or cell in a shell."""
_COMMANDS = words("rm mv cp mkdir rmdir ls cat ll lf lk ldir lx less more man pip conda mamba micromamba uv")
"""Magics that are themselves a shell command."""
_LOOKING = words("ls cat ll lf lk ldir lx less more man")
_CODE = words("time timeit prun memit mprun lprun debug capture px scalene heat pyinstrument python python3 pypy")
"""Magics that run their line or cell as Python."""
_ONLY_THE_CELL = words("capture px python python3 pypy")
_OTHER_LANGUAGES = words("perl ruby R julia node cython fortran cuda inline")
_EFFECTS: dict[str, Effect] = {
    **dict.fromkeys(
        words("alias qtconsole perl ruby R julia node python python2 python3 pypy"), "Runs shell commands:"
    ),
    **dict.fromkeys(
        words("run load loadpy macro rerun recall edit pylab alias_magic"),
        "Runs code it builds:",
    ),
    **dict.fromkeys(words("writefile file save logstart notebook store"), "Writes files:"),
    **dict.fromkeys(words("javascript js html HTML svg SVG"), "Shows HTML or script:"),
    **dict.fromkeys(words("cython fortran inline cuda"), "Loads native code:"),
    **dict.fromkeys(words("reset reset_selective xdel"), "Deletes variables:"),
    **dict.fromkeys(words("cd pushd popd"), "Changes the kernel:"),
    "pastebin": "Uses the network:",
    "bigquery": "Uses the network:",
    "killbgscripts": "Stops processes:",
    "connect_info": "Reads secrets:",
}
_HARMLESS = words("""
    matplotlib config autoreload aimport load_ext reload_ext unload_ext who who_ls whos pwd precision pdb pprint xmode
    colors autosave automagic autocall lsmagic magic quickref page pdef pdoc pfile pinfo pinfo2 psearch psource pycat
    gui dirs dhist bookmark hist history tb logstop logon logoff logstate doctest_mode latex markdown tensorboard
    unalias rehashx profile clear cls subplots watermark agent
    """)
_SPECIAL = words("env set_env sql bigquery")
_OPTIONS = re.compile(r"^(?:-[nrpTsSlfmu]\s*\S+\s+|-\w+\s+)*")


def magic(name: str, line: str, body: str | None, read_code: Nested, read_command: Nested) -> Iterator[Finding]:
    """The effects of a magic. `body` is the rest of the cell for a cell magic."""
    shown = f"{'%' if body is None else '%%'}{name} {line}".strip()
    program = next((word for word in line.split() if not word.startswith("-")), "").rpartition("/")[2]
    if name == "script" and program not in _SHELLS:
        # A cell in another language, or with an unknown magic.
        yield "Runs shell commands:", shown
        name, line = program.rstrip("0123456789."), ""
    elif name in _COMMANDS:
        found = read_command(f"{name} {line}")
        if not found and name not in _LOOKING:
            yield "Runs shell commands:", shown
        yield from found
    elif name in _SHELLS:
        yield "Runs shell commands:", line if body is None else next(filter(str.strip, body.split("\n")), "")
        yield from read_command(line if body is None else body)
    elif name in _SPECIAL:
        yield from _special(name, line, body)
    elif name in _EFFECTS:
        words_of_it = line.split()
        yield _EFFECTS[name], words_of_it[-1] if words_of_it and _EFFECTS[name] == "Writes files:" else shown
    elif name == "history" and "-f" in line.split():
        yield "Writes files:", line.split()[-1]
    yield from _code(name, line, body, read_code, read_command)


def _special(name: str, line: str, body: str | None) -> Iterator[Finding]:
    variable, *value = line.replace("=", " ", 1).split() or [""]
    if name in ("sql", "bigquery"):
        yield from changes(f"{line} {body or ''}")
        if name == "bigquery":
            yield "Uses the network:", "%%bigquery"
    elif value or name == "set_env":
        yield "Changes the kernel:", variable
    elif variable:
        yield variable_read(variable)
    else:
        yield "Reads secrets:", "%env"


def _code(name: str, line: str, body: str | None, read_code: Nested, read_command: Nested) -> Iterator[Finding]:
    """The effects of the code that a magic runs."""
    if name in _CODE:
        code = "" if body is not None and name in _ONLY_THE_CELL else _OPTIONS.sub("", line)
        yield from read_code(code) if code else []
        yield from read_code(body) if body else []
    elif name in _OTHER_LANGUAGES:
        yield "Not checked:", f"the code of %%{name}"
    elif name == "alias":
        yield from read_command(line.partition(" ")[2])
    elif not any(name in known for known in (_EFFECTS, _COMMANDS, _SHELLS, _HARMLESS, _SPECIAL)):
        yield "Not checked:", f"what {'%' if body is None else '%%'}{name} does"
        yield from read_code(body) if body else []


class Plain(NamedTuple):
    code: str
    magics: list[str]
    """The magics as separate calls, for code whose rest can't be parsed."""


def is_magic_without_a_mark(code: str) -> bool:
    line = code.strip()
    word = _WORD.match(line)
    if "\n" in line or word is None or word.group() not in _WITHOUT_A_MARK:
        return False
    return not _OPERATOR.match(line[word.end() :].strip())


def plain_python(code: str) -> Plain:
    """Translate magics into calls, keeping the number of lines."""
    code = code.lstrip("\n")
    if code.lstrip().startswith("%%") and not code.lstrip().startswith("%%%"):
        head, _, body = code.lstrip()[2:].partition("\n")
        name, _, line = head.strip().partition(" ")
        if _HELP.match(head):
            return Plain("", [])
        call = f"get_ipython().run_cell_magic({name!r}, {line.strip()!r}, {body!r})"
        return Plain(call, [call])
    if is_magic_without_a_mark(code):
        return _Lines(["%" + code.strip()]).plain()
    lines = code.split("\n")
    if len(lines) == 1 and (at_once := _CALLED_AT_ONCE.match(code)) is not None:
        call = _called(at_once["mark"], at_once["function"], at_once["arguments"])
        return Plain(call, [call])
    return _Lines(lines).plain()


def _called(mark: str, function: str, arguments: str) -> str:
    if mark == "/":
        return f"{function}({arguments})"
    words = [arguments] if mark == ";" else arguments.split()
    return f"{function}({', '.join(map(repr, words))})"


class _Lines:
    """Tracks over lines whether a string or bracket is open, in which nothing is a magic."""

    def __init__(self, lines: list[str]) -> None:
        self._lines = lines
        self._text = ""
        """The closing quotes of the open string, or empty."""
        self._depth = 0
        self._continues = False

    def plain(self) -> Plain:
        made: list[str] = []
        magics: list[str] = []
        waiting: list[str] = []
        for line in self._lines:
            if waiting or self._is_magic(line):
                waiting.append(line)
                made.append("")
                if line.endswith("\\"):
                    continue
                call = self._call("\n".join(waiting))
                made[-len(waiting)] = call
                magics.append(call.strip())
                waiting = []
            elif self._is_at_start() and _HELP.match(line):
                made.append("")
            else:
                made.append(line)
                self._go_on(line)
        if waiting:
            made[-len(waiting)] = self._call("\n".join(waiting))
            magics.append(made[-len(waiting)].strip())
        return Plain("\n".join(made), magics)

    def _is_at_start(self) -> bool:
        return not self._text and self._depth == 0 and not self._continues

    def _is_magic(self, line: str) -> bool:
        # Stripped separately, because long blanks take quadratic time in the pattern.
        return self._is_at_start() and not _HELP.match(line) and _MAGIC.match(line.strip()) is not None

    def _call(self, text: str) -> str:
        stripped = text.lstrip()
        match = _MAGIC.match(stripped.replace("\\\n", " ").strip())
        assert match is not None
        indent, target, command = text.removesuffix(stripped), match["target"] or "", match["command"].strip()
        if match["mark"] in ("!", "!!"):
            method = "getoutput" if target or match["mark"] == "!!" else "system"
            return f"{indent}{target}get_ipython().{method}({command!r})"
        name, _, line = command.partition(" ")
        return f"{indent}{target}get_ipython().run_line_magic({name!r}, {line.strip()!r})"

    def _go_on(self, line: str) -> None:
        position = 0
        self._continues = False
        while position < len(line):
            if self._text:
                end = line.find(self._text, position)
                if end < 0:
                    return
                position, self._text = end + 3, ""
                continue
            match = _TOKEN.search(line, position)
            if match is None or match["comment"]:
                break
            position = match.end()
            if match["triple"]:
                self._text = match["triple"]
            elif match["open"]:
                self._depth += 1
            elif match["close"]:
                self._depth = max(0, self._depth - 1)
        self._continues = line.endswith("\\") and not self._text
