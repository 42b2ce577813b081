"""Finds what a simple command runs besides its own program: commands in its words, and code that it is given.

The tables have the common programs of this kind. Any other program may run others as well, so they serve rules and
warnings and are no sandbox.
"""

import itertools
import re
from dataclasses import dataclass
from functools import lru_cache

from agent_kernel.tools.review.shell_lines import RESERVED, Redirect, ShellLine, SimpleCommand, Word, read_line
from agent_kernel.tools.review.shell_runners import (
    assigned_by,
    canonical,
    follow,
    hides_verb,
    introduces,
    is_shell,
    is_stream,
    runs_words,
)

_WITH_VERBS = frozenset(
    (
        *("apt", "apt-get", "aws", "az", "brew", "cargo", "conda", "dbt", "docker", "dvc", "gcloud", "gh", "git", "go"),
        *("hatch", "helm", "jupyter", "just", "kaggle", "kubectl", "make", "mamba", "mlflow", "npm", "pdm", "pip"),
        *("pip3", "pixi", "pnpm", "podman", "poetry", "ruff", "rye", "snap", "systemctl", "terraform", "uv", "yarn"),
    )
)
"""Programs with subcommands."""
_OTHER_INTERPRETERS = frozenset((
    "perl", "ruby", "node", "nodejs", "deno", "bun", "php", "lua", "luajit", "rscript", "r", "julia", "tclsh",
    "expect", "osascript", "pwsh", "powershell", "irb", "scala", "groovy", "jshell", "octave", "gnuplot", "racket",
    "elixir", "ghci", "ocaml", "m4", "dc", "ts-node", "tsx",
))  # fmt: skip
_PYTHONS = frozenset({"python", "pypy", "ipython", "pythonw"})
_AWKS = frozenset({"awk", "gawk", "mawk", "nawk", "original-awk", "goawk"})
_AWK_RUNS = re.compile(r"system|getline|\||@|(?:^| )-(?:[^- ]*[fEliD]|-(?:file|exec|include|load|debug))")
_WITH_CODE = frozenset((
    "vi", "vim", "nvim", "view", "vimdiff", "ex", "ed", "emacs", "emacsclient", "nano", "gdb", "lldb", "sqlite",
    "duckdb", "psql", "mysql", "mariadb", "mongosh", "ftp", "lftp", "telnet", "mail", "mailx", "at", "batch",
    "crontab", "run-parts", "start-stop-daemon", "socat", "capsh", "sendmail", "sbatch", "qsub", "nmap", "ansible",
    "newgrp", "fzf", "mc", "supervisord",
))  # fmt: skip
"""Programs that can run others by what they are given or read."""
_GIT_RUNS = (
    *("--config-env", "--exec", "--exec-path", "--ext-diff", "--extcmd", "--open-files-in-pager"),
    *("--receive-pack", "--textconv", "--tool", "--upload-pack", "--config"),
)
_GIT_PLACES = ("--git-dir", "--output", "--work-tree", "--template")
_COMPILER = r"-wrapper|-fplugin.*|-specs.*|--specs.*|-B.*|-fuse-ld.*|-Xclang|-load|@.*"
_SSH_OPTION = (
    r"(?i:(?:-[^-]*o)?\s*(?:\w*command|include|match|pkcs11\w*|securitykey\w*|xauth\w*|proxy\w*)\b.*)|-[^-]*F.*"
)
_RUNS = {
    "git": r"-[^-]*[cxO].*|ext::.*|filter-branch|difftool|mergetool|config",
    **dict.fromkeys(("tar", "bsdtar"), r"-[^-]*[IF].*|[A-Za-z]*[IF][A-Za-z]*|--(?:ch|to-|use|in|new|rsh|rmt).*"),
    "rsync": r"-[^-]*e.*|--(?:rsh|rsync-path).*",
    "ssh": _SSH_OPTION,
    "scp": rf"{_SSH_OPTION}|-[^-]*[SD].*",
    "sftp": rf"{_SSH_OPTION}|-[^-]*[SDb].*",
    **dict.fromkeys(("make", "gmake"), r"--(?:ev|fi|mak).*|.*=.*|-[^-]*f.*"),
    "cmake": r"-[EP].*|-D.*(?:LAUNCHER|COMPILER|COMMAND).*",
    "sort": r"--co.*",
    "rg": r"--(?:pre|hostname-bin|search-zip).*|-[^-]*z.*",
    "zip": r"-[^-]*T.*|--(?:un|te).*",
    "split": r"--f.*",
    "man": r"-[^-]*[PHC].*|--.*",
    **dict.fromkeys(("less", "more"), r"[+].*|-[^-]*[kP].*|--.*"),
    "wget": r"--(?:use-ask|conf|exec).*|-[^-]*e.*",
    **dict.fromkeys(("nc", "ncat", "netcat"), r"-[^-]*[ec].*|--(?:e|sh|lua).*"),
    "tcpdump": r"-[^-]*z.*",
    **dict.fromkeys(("bat", "ag", "ack", "delta"), r"--pager.*"),
    "hg": r"--config.*|--ssh.*|-e.*",
    **dict.fromkeys(("gh", "glab"), r"alias|extension"),
    "deno": r"eval|repl",
    **dict.fromkeys(("apt", "apt-get"), r"-[^-]*[oc].*|--(?:op|conf).*"),
    "pip": r"--(?:python|editor).*",
    "go": r"-?-(?:exec|toolexec|overlay).*|generate",
    "cargo": r"--config.*",
    "npm": r"--(?:script-shell|node-options).*",
    **dict.fromkeys(("gcc", "g++", "cc", "c++", "clang", "clang++", "gfortran", "ld"), _COMPILER),
    **dict.fromkeys(("tex", "latex", "pdftex", "pdflatex", "xetex", "xelatex", "latexmk"), r"-.*(?:sh|wr|e).*"),
    "pandoc": r"-[^-]*F.*|--(?:filter|lua|pdf-engine|defaults).*",
    "jupyter": r".*(?:PreProcessor|kernel_cmd|preprocessors).*",
}
"""Arguments by which programs run others."""
_WRITES = {
    "find": r"-(?:exec|execdir|ok|okdir|delete|fprintf?|fprint0|fls|files0-from)",
    "fd": r"-[xX].*|--exec.*",
    "git": r"-[^-]*C.*",
    "scp": r"-[^-]*[oF].*",
    "sftp": r"-[^-]*[oF].*",
    "make": r"-[^-]*C.*|--di.*",
    "sort": r"--(?:o|f).*|-[^-]*o.*",
    "printf": r"-v.*",
    "less": r"-.*",
    "curl": r"-[^-]*K.*|--conf.*",
}
"""Arguments by which programs write, or read commands from elsewhere."""
_SED_REGEX = r"(?:(?!{0})[^\[\\\n]|\\[^\n]|\[\^?(?:(?!{0})[^\]\\\n])+\])*"
_SED_ADDRESS = rf"(?:[0-9]+(?:~[0-9]+)?|\$|/{_SED_REGEX.format('/')}/I?)"
_SED_COMMAND = re.compile(
    rf" ?(?:{_SED_ADDRESS}(?:,[+~]?{_SED_ADDRESS})?)? ?!? ?"
    rf"(?:[dDgGhHlnNpPqQx=]|[sy](?P<mark>[/|,:#@_%+!]){_SED_REGEX.format('(?P=mark)')}(?P=mark)"
    r"(?:(?!(?P=mark))[^\\\n]|\\[^\n])*(?P=mark)[gIp0-9]*) ?(?:;|$)"
)
"""A command of sed that only selects or replaces lines, without `e` and `w`."""
_COMPOUND = RESERVED - {"time", "!", "[["}
"""Words that begin a compound command, or belong to one."""
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
    name, rest = canonical(command.program), [word.text for word in command.words[1:]]
    if runs_words(command) or runs_code(command) or _runs_others(command) or changes_state(command):
        return True
    if name in _AWKS or hides_verb(command):
        return True
    if introduced := introduces(command):
        return len(rest) < introduced or rest[introduced - 1].startswith("-")
    if name == "git" and any(_abbreviates(word, _GIT_PLACES) for word in rest):
        return True
    return name in _WRITES and any(_is(_WRITES[name], word) for word in rest)


def runs_code(command: SimpleCommand) -> bool:
    """Whether the command runs code from its arguments or from elsewhere."""
    name = canonical(command.program)
    if name in ("eval", "source", "."):
        return True
    return not command.words[0].fixed or (_is_interpreter(name) and _code_of_interpreter(name, command.words[1:]))


def spelled_out(command: SimpleCommand) -> int:
    """How many leading words a rule that allows has to name, because they choose what runs: 3 for `uv run pytest x` and
    for `python -m pytest x`."""
    if introduced := introduces(command):
        return introduced + 1
    words = command.words
    return 3 if canonical(command.program) in _PYTHONS and len(words) > 1 and words[1].text == "-m" else 0


def first_words(line: str) -> list[str]:
    """The leading words that name what the commands of a plain line do: `git log`, `ls`, `python x.py`. Empty if there
    are none, or if they differ between the commands."""
    seen = running(line)
    found = [_first_words(command) for command in seen.written] if seen.plain else []
    return found[0] if found and all(words == found[0] for words in found) else []


def _first_words(command: SimpleCommand) -> list[str]:
    words, name = [word.text for word in command.words], command.program
    count = max(spelled_out(command), 2 if name in _WITH_VERBS or _is_interpreter(canonical(name)) else 1)
    return [] if len(words) < count or (name in _WITH_VERBS and words[1].startswith("-")) else words[:count]


class _Gathered:
    def __init__(self) -> None:
        self.commands: list[SimpleCommand] = []
        self.redirects: list[Redirect] = []
        self.readable = self.whole = True
        self._words = self._lines = 0

    def take_all(self, line: ShellLine, depth: int) -> None:
        self.readable = self.readable and line.readable
        self.whole = self.whole and line.whole and not any(map(sets_what_runs, line.assigned))
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
        self.whole = self.whole and command.words[0].fixed and not _is_opaque(command)
        for part in itertools.takewhile(self._has_room, follow(command)):
            if part is None:
                self.whole = False
            elif isinstance(part, Word):
                self._take_line(part, depth + 1)
            else:
                self.take(part, depth + 1)

    def _has_room(self, _: object) -> bool:
        return self._words <= _MOST_WORDS and self._lines <= _MOST_LINES

    def _take_line(self, line: Word, depth: int) -> None:
        self._lines += 1
        self.whole = self.whole and line.fixed
        if self._lines > _MOST_LINES:
            self.whole = False
        elif depth <= _DEEPEST:
            self.take_all(read_line(line.text), depth)


def _is_opaque(command: SimpleCommand) -> bool:
    """Whether the command may run what can't be followed."""
    if command.program in _COMPOUND:  # after `time` or `coproc`
        return True
    return evaluates(command) or _runs_others(command) or any(map(sets_what_runs, assigned_by(command)))


def _runs_others(command: SimpleCommand) -> bool:
    """Whether the command runs programs by its arguments, beside those that `follow` finds."""
    name, rest = canonical(command.program), [word.text for word in command.words[1:]]
    if name in _WITH_CODE:
        return True
    if _is_interpreter(name) and not is_shell(name) and _code_of_interpreter(name, command.words[1:]):
        return True
    if name in _AWKS:
        program = re.sub(r"\|\||(?:^| )-F ?\S+", "", " ".join(rest))
        return not all(word.fixed for word in command.words) or _AWK_RUNS.search(program) is not None
    if name == "sed":
        return not _is_harmless_sed(command.words[1:])
    if name == "git":
        clones = "clone" in rest and any(_is("-[^-]*u.*", word) for word in rest)
        return clones or any(_is(_RUNS["git"], word) or _abbreviates(word, _GIT_RUNS) for word in rest)
    return name in _RUNS and any(_is(_RUNS[name], word) for word in rest)


def _is_interpreter(name: str) -> bool:
    return is_shell(name) or name in _OTHER_INTERPRETERS or name in _PYTHONS


def _code_of_interpreter(name: str, words: tuple[Word, ...]) -> bool:
    """Whether an interpreter's code may be from elsewhere than a file. Only Python's options are known well enough."""
    rest = [word.text for word in words]
    if name in _PYTHONS and rest[:1] in (["--version"], ["-V"], ["-m"]):
        return rest == ["-m"]
    after_option = False
    for word in words:
        if not word.text.startswith(("-", "+")) or word.text == "-":
            if is_stream(word):
                return True
            if not after_option:
                return False
            after_option = False
        elif name not in _PYTHONS or not re.fullmatch(r"-[bBdEiIOPqRsSuvWxX]+|-[WX].*", word.text):
            return True
        else:
            after_option = True
    return not rest or after_option


def _is_harmless_sed(words: tuple[Word, ...]) -> bool:
    """Whether a script only selects and replaces, without `e` and `w`."""
    texts = [word.text for word in words]
    scripts = [after for before, after in itertools.pairwise(texts) if before in ("-e", "--expression")]
    scripts = scripts or [text for text in texts if not text.startswith("-")][:1]
    options = [text for text in texts if text.startswith("-")]
    known = all(re.fullmatch(r"-[nErzsu]+|-i(?:\.\w+)?|-e|--expression", option) for option in options)
    return known and bool(scripts) and all(_is_short(text) and not _SED_COMMAND.sub("", text) for text in scripts)


def _is_short(word: str) -> bool:
    """Whether a word is examined."""
    return len(word) <= _LONGEST_WORD


def _is(pattern: str, word: str) -> bool:
    """Whether a word matches one of the arguments. Very long words count as matches without being examined."""
    return not _is_short(word) or re.fullmatch(pattern, word, re.DOTALL) is not None


def _abbreviates(word: str, options: tuple[str, ...]) -> bool:
    """Whether a word is a prefix of a long option, which git accepts."""
    name = word.partition("=")[0]
    return len(name) > 2 and any(option.startswith(name) for option in options)


_SETS_WHAT_RUNS = re.compile(
    r"PS[0-4]|BASH_.*|ENV|ZDOTDIR|PROMPT_.*|HOME|SHELL|SHELLOPTS|BASHOPTS|PATH|EXECIGNORE|INPUTRC|XDG_CONFIG_\w+"
    r"|(?:LD|DYLD)_.*|GLIBC_TUNABLES|GCONV_PATH|GIT_(?!AUTHOR_|COMMITTER_).*|\w+_ASKPASS|\w*PAGER|\w*EDITOR|VISUAL|BROWSER"
    r"|LESS\w*|FCEDIT|EXINIT|VIMINIT|MAN(?:ROFF)?OPT|RSYNC_\w+|\w*RSH|SVN_SSH|TAR_OPTIONS|TAPE|MAKE\w*|GNUMAKEFLAGS"
    r"|CC|CXX|CPP|LD|COMPILER_PATH|GCC_\w+|RUSTC?_\w+|CARGO_\w+|GOFLAGS|PERL\w*|RUBY\w*|NODE_OPTIONS|npm_config_\w+"
    r"|PYTHON(?:HOME|STARTUP|INSPECT|BREAKPOINT)|_?JAVA_(?:TOOL_)?OPTIONS|JDK_JAVA_OPTIONS|LUA_INIT\w*|PHP\w*|R_PROFILE\w*"
    r"|OPENSSL_\w+|PSQLRC|KUBECONFIG|AWKPATH|GAWK\w*"
)
_STATE = frozenset(
    (
        *("alias", "bind", "compgen", "complete", "compopt", "declare", "enable", "export", "fc", "getopts", "hash"),
        *("let", "local", "mapfile", "readarray", "read", "readonly", "set", "shopt", "test", "trap", "typeset"),
        *("unset", "wait", "[", "[["),
    )
)
_ALWAYS = frozenset({"alias", "bind", "compgen", "complete", "compopt", "fc", "source", ".", "coproc"})
"""Builtins that change what later words mean, or run what can't be seen."""
_ON_NAMES = frozenset({"getopts", "mapfile", "read", "readarray", "unset"})
"""Builtins that take names of variables, and evaluate their subscripts."""
_OPTIONS = {
    "declare": r"[-+][^-]*[in].*",
    "typeset": r"[-+][^-]*[in].*",
    "local": r"[-+][^-]*[in].*",
    "export": r"-[^-]*f.*",
    "mapfile": r"-[^-]*C.*",
    "readarray": r"-[^-]*C.*",
    "enable": r"-[^-]*f.*",
    "hash": r"-[^-]*p.*",
    "let": r".*[A-Za-z_$`].*",
    "set": r"[-+][^-]*k.*|keyword",
    "wait": r"-p.*|\$(?!!$).*",
    "[[": r".*-(?:[vR]|eq|ne|lt|le|gt|ge)\s.*",
}
"""Arguments by which builtins evaluate the values of variables, or change what later words mean."""


def sets_what_runs(name: str) -> bool:
    """Whether the value of a variable is run, or chooses what runs."""
    return _SETS_WHAT_RUNS.fullmatch(name) is not None


def changes_state(command: SimpleCommand) -> bool:
    """Whether it is a builtin that changes what later words mean, or evaluates what it is given."""
    return command.program in _STATE


def evaluates(command: SimpleCommand) -> bool:
    """Whether a builtin may run what its words or the values of variables hold."""
    name, rest = command.program, command.words[1:]
    if name in _ALWAYS:
        return bool(rest)
    pattern = _OPTIONS.get(name)
    if pattern is not None and any(re.fullmatch(pattern, word.text, re.DOTALL) for word in rest):
        return True
    match name:
        case "test":
            return any(word.splits for word in rest) or any(map(_tests_variable, rest, rest[1:]))
        case "printf":
            first = rest[0] if rest else Word("")
            return not first.fixed or (first.text.startswith("-v") and any(map(_may_evaluate, rest[:2])))
        case "enable" | "hash":
            return not all(word.fixed for word in rest)
        case "export" | "readonly":
            arrays = any(re.fullmatch(r"-\w*[aA]\w*", word.text) for word in rest)
            return any(_may_evaluate(word) or (arrays and not word.fixed) for word in rest)
        case "declare" | "local" | "typeset":
            return any(_may_evaluate(word) or not word.fixed for word in rest)
        case _:
            return name in _ON_NAMES and any(map(_may_evaluate, rest))


def _tests_variable(operator: Word, operand: Word) -> bool:
    return (operator.text in ("-v", "-R") or not operator.fixed) and _may_evaluate(operand)


def _may_evaluate(word: Word) -> bool:
    """Whether a name, or an assignment to one, may hold a subscript or sets what runs."""
    name, equals, value = re.sub(r"^-[A-Za-z]", "", word.text).partition("=")  # of `-vNAME` the name
    if equals and re.fullmatch(r"\w+\+?", name):
        return sets_what_runs(name.rstrip("+")) or value.startswith("(")  # an array, which Bash reads once more
    return not word.fixed or "[" in name or sets_what_runs(name)
