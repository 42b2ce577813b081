"""Judges what Bash itself runs or evaluates: builtins that expand the names they are given, and variables that set what
a shell or a program runs."""

import re

from agent_kernel.tools.review.shell_lines import SimpleCommand, Word

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
