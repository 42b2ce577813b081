"""Finds what a simple command runs besides its own program: commands in its words, and code that it is given.

The tables have the common programs of this kind. Any other program may run others as well, so they serve rules and
warnings and are no sandbox.
"""

import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

from agent_kernel.tools.review.shell_lines import Redirect, ShellLine, SimpleCommand, Word, read_line

_WRAPPERS = {
    **dict.fromkeys(
        ("builtin", "busybox", "chrt", "command", "coproc", "doas", "env", "exec", "firejail", "ionice"), 0
    ),
    **dict.fromkeys(
        ("firejail", "nice", "nohup", "npx", "bunx", "parallel", "pkexec", "setsid", "stdbuf", "strace"), 0
    ),
    **dict.fromkeys(("sudo", "time", "toybox", "unbuffer", "uvx", "watch", "xargs", "!"), 0),
    **dict.fromkeys(("chroot", "flock", "nsenter", "rsh", "runuser", "ssh", "taskset", "timeout", "unshare"), 1),
}
"""Programs that run the command in their words, with the number of own words before it."""
_RUNNERS = {
    **dict.fromkeys((f"{name} run" for name in ("uv", "poetry", "pipenv", "pdm", "hatch", "rye", "pixi")), 0),
    **dict.fromkeys((f"{name} run" for name in ("conda", "mamba", "micromamba", "pipx")), 0),
    **dict.fromkeys(("npm exec", "pnpm exec", "pnpm dlx", "yarn exec", "yarn dlx", "bun x", "bundle exec"), 0),
    **dict.fromkeys(("git bisect run", "git submodule foreach"), 0),
    **dict.fromkeys(("docker run", "docker exec", "podman run", "podman exec", "kubectl exec"), 1),
}
"""The same, for words that introduce a command."""
_WITH_VERBS = frozenset(
    (
        *("apt", "apt-get", "aws", "az", "brew", "cargo", "conda", "dbt", "docker", "dvc", "gcloud", "gh", "git", "go"),
        *("hatch", "helm", "jupyter", "just", "kaggle", "kubectl", "make", "mamba", "mlflow", "npm", "pdm", "pip"),
        *("pip3", "pixi", "pnpm", "podman", "poetry", "ruff", "rye", "snap", "systemctl", "terraform", "uv", "yarn"),
    )
)
"""Programs with subcommands."""
_SHELLS = frozenset({"sh", "bash", "zsh", "dash", "ksh", "mksh", "ash", "fish", "rbash"})
_OTHER_INTERPRETERS = frozenset(
    (
        *("perl", "ruby", "node", "nodejs", "deno", "bun", "php", "lua", "luajit", "Rscript", "R", "julia", "tclsh"),
        *("expect", "osascript", "pwsh", "powershell", "irb", "ghc", "scala", "groovy", "guile"),
    )
)
_PYTHON = r"(?:python|pypy|ipython)[0-9.]*w?"
_AWKS = frozenset({"awk", "gawk", "mawk", "nawk"})
_WITH_CODE = frozenset({"vi", "vim", "nvim", "view", "ex", "ed", "emacs", "gdb", "lldb", "sqlite3", "psql", "mysql"})
"""Programs that can run others by their arguments."""
_STATE = frozenset(
    (
        *("alias", "bind", "complete", "declare", "enable", "export", "fc", "hash", "let", "local", "mapfile"),
        *("readarray", "read", "readonly", "set", "shopt", "test", "trap", "typeset", "unset", "[", "[["),
    )
)
"""Builtins that change what later words mean, or evaluate what they are given."""
_GIT_OPTIONS = (
    *("--config-env", "--exec", "--exec-path", "--ext-diff", "--extcmd", "--git-dir", "--open-files-in-pager"),
    *("--output", "--receive-pack", "--textconv", "--tool", "--upload-pack", "--work-tree", "--config", "--template"),
)
_GIT_WORDS = r"-[^-]*[cCxO].*|ext::.*|filter-branch|difftool|mergetool|config"
_OPTIONS = {
    "find": r"-(?:exec|execdir|ok|okdir|delete|fprintf?|fprint0|fls|files0-from)",
    "fd": r"-[xX].*|--exec.*",
    "tar": r"-[^-]*[IF].*|[A-Za-z]*[IF][A-Za-z]*|--(?:ch|to-|use|in|new|rsh|rmt).*",
    "rsync": r"-[^-]*e.*|--(?:rsh|rsync-path).*",
    "scp": r"-[^-]*[SoDF].*",
    "sftp": r"-[^-]*[SoDFb].*",
    "make": r"--ev.*|.*=.*|-[^-]*[fC].*|--(?:fi|mak|di).*",
    "sort": r"--(?:co|o|f).*|-[^-]*o.*",
    "rg": r"--(?:pre|hostname-bin|search-zip).*|-[^-]*z.*",
    "zip": r"-[^-]*T.*|--(?:un|te).*",
    "printf": r"-v.*",
    "less": r"[+-].*",
    "man": r"-[^-]*[PHC].*|--.*",
    "curl": r"-[^-]*K.*|--conf.*",
    "wget": r"--(?:use-ask|conf|exec).*|-[^-]*e.*",
}
"""Arguments by which programs run others, write, or read commands from elsewhere."""
_SED = r"[0-9,$]*[pdq=]|s([/|,:#])(?:(?!\1)[^\\\n])*\1(?:(?!\1)[^\\\n])*\1[gIp0-9]*"
_DEEPEST = 8
_MOST_WORDS = 20_000
"""The most words of all commands of a line. Each word of `xargs -a -b -c ...` may begin one."""
_MOST_LINES = 50
"""The most nested lines, such as that of `sh -c`."""
_LONGEST_WORD = 1_000
_KEPT = 8
"""The size of the cache of parsed lines, because every rule looks at the same one."""


@dataclass(frozen=True, slots=True)
class Running:
    """The simple commands that a line is known to run."""

    commands: tuple[SimpleCommand, ...]
    written: tuple[SimpleCommand, ...]
    """Those that the line itself contains."""
    whole: bool
    """Whether these are all. False if code is computed at run time or can't be read."""
    plain: bool
    """Whether a rule may allow it: fixed words, and no program that runs others."""
    redirects: tuple[Redirect, ...]
    substitutes: bool
    readable: bool


@lru_cache(maxsize=_KEPT)
def running(line: str) -> Running:
    read = read_line(line)
    gathered = _Gathered()
    gathered.take_all(read, 0)
    plain = read.plain and gathered.whole and not any(map(builds, read.commands))
    return Running(
        tuple(gathered.commands),
        read.commands,
        whole=gathered.whole,
        plain=plain,
        redirects=tuple(gathered.redirects),
        substitutes=read.substitutes,
        readable=gathered.readable,
    )


def builds(command: SimpleCommand) -> bool:
    """Whether the command runs, or can be made to run, other programs, so that no rule may allow it."""
    name, rest = command.program, [word.text for word in command.words[1:]]
    if name in _WRAPPERS or name in _STATE or name in _WITH_CODE or name in _AWKS or name in ("eval", "source", "."):
        return True
    if _is_interpreter(name):
        return _code_of_interpreter(name, rest)
    if name == "git":
        clones = "clone" in rest and any(_is("-[^-]*u.*", word) for word in rest)
        return clones or any(_is(_GIT_WORDS, word) or _abbreviates(word, _GIT_OPTIONS) for word in rest)
    if name == "sed":
        return not rest or not _is_harmless_sed(rest)
    if runner := _runner(command):
        return len(rest) < runner or rest[runner - 1].startswith("-")
    return name in _OPTIONS and any(_is(_OPTIONS[name], word) for word in rest)


def runs_code(command: SimpleCommand) -> bool:
    """Whether the command runs code from its arguments or from elsewhere."""
    name, rest = command.program, [word.text for word in command.words[1:]]
    if name in ("eval", "source", "."):
        return True
    return not command.words[0].fixed or (_is_interpreter(name) and _code_of_interpreter(name, rest))


def spelled_out(command: SimpleCommand) -> int:
    """How many leading words a rule that allows has to name, because they choose what runs: 3 for `uv run pytest x` and
    for `python -m pytest x`."""
    if runner := _runner(command):
        return runner + 1
    words = command.words
    return 3 if re.fullmatch(_PYTHON, command.program) and len(words) > 1 and words[1].text == "-m" else 0


def first_words(line: str) -> list[str]:
    """The leading words that name what the commands of a plain line do: `git log`, `ls`, `python x.py`. Empty if there
    are none, or if they differ between the commands."""
    seen = running(line)
    found = [_first_words(command) for command in seen.written] if seen.plain else []
    return found[0] if found and all(words == found[0] for words in found) else []


def _first_words(command: SimpleCommand) -> list[str]:
    words, name = [word.text for word in command.words], command.program
    count = max(spelled_out(command), 2 if name in _WITH_VERBS or _is_interpreter(name) else 1)
    return [] if len(words) < count or (name in _WITH_VERBS and words[1].startswith("-")) else words[:count]


class _Gathered:
    def __init__(self) -> None:
        self.commands: list[SimpleCommand] = []
        self.redirects: list[Redirect] = []
        self.readable = self.whole = True
        self._words = self._lines = 0

    def take_all(self, line: ShellLine, depth: int) -> None:
        self.readable = self.readable and line.readable
        self.whole = self.whole and line.whole
        self.redirects.extend(line.redirects)
        for command in line.commands:
            self.take(command, depth)

    def take(self, command: SimpleCommand, depth: int) -> None:
        """Add the command and those that it runs."""
        self._words += len(command.words)
        if depth > _DEEPEST or self._words > _MOST_WORDS:
            self.whole = False
            return
        self.commands.append(command)
        for part in itertools.takewhile(self._has_room, _commands_in(command)):
            self.take(part, depth + 1)
        for code in itertools.takewhile(self._has_room, _shell_code_in(command)):
            self._take_code(code, depth + 1)
        name = command.program
        if name in _AWKS:
            self.whole = self.whole and all(word.fixed for word in command.words) and "system" not in command.text
        elif name != "eval" and name not in _SHELLS:  # their code was added above
            self.whole = self.whole and not runs_code(command)

    def _has_room(self, _: object) -> bool:
        return self._words <= _MOST_WORDS and self._lines <= _MOST_LINES

    def _take_code(self, code: Word | None, depth: int) -> None:
        self._lines += 1
        if code is None or not code.fixed or self._lines > _MOST_LINES:
            self.whole = False
        elif depth <= _DEEPEST:
            self.take_all(read_line(code.text), depth)


def _commands_in(command: SimpleCommand) -> Iterator[SimpleCommand]:
    """The commands that the words may contain. Not every program's options are known, so a word after an option counts
    both as its value and as a command."""
    name = command.program
    if name == "find":
        yield from _executed_by_find(command.words)
        return
    if name in _WRAPPERS:
        start, own = 1, _WRAPPERS[name]
    elif runner := _runner(command):
        start, own = runner, _RUNNERS[" ".join([name, *(word.text for word in command.words[1:runner])])]
    elif name in _SHELLS:
        start, own = 1, 0
    else:
        return
    unseen = (Word("", fixed=False),) if name in ("xargs", "parallel") else ()
    after_option = False
    for position in range(start, len(command.words)):
        text = command.words[position].text
        if text.startswith("-") and len(text) > 1:
            after_option = text != "--"
        elif not (name == "env" and re.match(r"\w+=", text)):
            yield SimpleCommand((*command.words[position:], *unseen))
            if not after_option and own <= 0:
                return
            own -= 0 if after_option else 1
            after_option = False


def _executed_by_find(words: tuple[Word, ...]) -> Iterator[SimpleCommand]:
    for position, word in enumerate(words):
        if word.text in ("-exec", "-execdir", "-ok", "-okdir") and position + 1 < len(words):
            rest = words[position + 1 :]
            end = next((place for place, other in enumerate(rest) if other.text in (";", "+")), len(rest))
            if rest[:end]:
                yield SimpleCommand(
                    tuple(replace(each, fixed=each.fixed and "{}" not in each.text) for each in rest[:end])
                )


def _shell_code_in(command: SimpleCommand) -> Iterator[Word | None]:
    """The line that a shell reads from its arguments; `None` if it comes from elsewhere."""
    name, rest = command.program, command.words[1:]
    match name:
        case "eval":
            yield Word(" ".join(word.text for word in rest), all(word.fixed for word in rest))
        case "trap":
            yield from rest[:1]
        case "alias":
            yield from (Word(word.text.partition("=")[2], word.fixed) for word in rest)
        case "su" | "script" | "ssh" | "watch" | "parallel" | "runuser":
            yield from (word for word in rest if " " in word.text)
        case "git":
            yield from (Word(word.text.partition("!")[2], word.fixed) for word in rest if "=!" in word.text)
        case _ if name in _SHELLS:
            yield from _code_of_shell(rest)


def _code_of_shell(words: tuple[Word, ...]) -> Iterator[Word | None]:
    options = [word.text for word in words if word.text.startswith(("-", "+"))]
    operands = [word for word in words if not word.text.startswith(("-", "+"))]
    if any("c" in option for option in options if not option.startswith("--")):
        yield from operands
    elif not operands or "-s" in options:
        yield None


def _is_interpreter(name: str) -> bool:
    return name in _SHELLS or name in _OTHER_INTERPRETERS or re.fullmatch(_PYTHON, name) is not None


def _code_of_interpreter(name: str, rest: list[str]) -> bool:
    """Whether an interpreter's code may be from elsewhere than a file. Only Python's options are known well enough."""
    if not rest:
        return True
    python = re.fullmatch(_PYTHON, name) is not None
    if python and rest[0] in ("--version", "-V", "-m"):
        return rest == ["-m"]
    after_option = False
    for word in rest:
        if not word.startswith("-") or word == "-":
            if word == "-":
                return True
            if not after_option:
                return False
            after_option = False
        elif not python or not re.fullmatch(r"-[bBdEiIOPqRsSuvWxX]+|-[WX].*", word):
            return True
        else:
            after_option = True
    return after_option


def _is_harmless_sed(rest: list[str]) -> bool:
    operands = [word for word in rest if not word.startswith("-")]
    options = [word for word in rest if word.startswith("-")]
    return bool(operands) and re.fullmatch(_SED, operands[0]) is not None and set(options) <= {"-n", "-E", "-r", "-i"}


def _is(pattern: str, word: str) -> bool:
    """Whether a word matches one of the arguments. Very long words count as matches without being examined."""
    return len(word) > _LONGEST_WORD or re.fullmatch(pattern, word) is not None


def _abbreviates(word: str, options: tuple[str, ...]) -> bool:
    """Whether a word is a prefix of a long option, which git accepts."""
    name = word.partition("=")[0]
    return len(name) > 2 and any(option.startswith(name) for option in options)


def _runner(command: SimpleCommand) -> int:
    """The number of leading words of a command that runs another one, such as `env` or `uv run`; else 0."""
    texts = [command.program, *(word.text for word in command.words[1:3])]
    return next((count for count in (2, 3) if " ".join(texts[:count]) in _RUNNERS), 0)
