"""What a shell command does to files, packages and the network, found by reading its words. It may do more."""

import shlex
from collections.abc import Iterator
from contextlib import suppress

from agent_kernel.tools.findings import Finding

_LARGEST = 50_000
_PUNCTUATION = "();<>|&\n"
_PREFIXES = {"command", "time", "nohup", "env", "exec", "then", "do", "else", "if", "while", "xargs", "nice"}
_DELETE = {"rm", "rmdir", "unlink", "shred"}
_WRITE = {"tee", "touch", "mkdir", "truncate", "chmod", "chown"}
_WRITE_LAST = {"mv", "cp", "ln", "install", "rsync"}
_NETWORK = {"curl", "wget", "ssh", "scp", "sftp", "rsync", "ftp", "nc", "telnet", "ping", "aws", "gsutil", "gh"}
_GIT_NETWORK = {"clone", "fetch", "pull", "push"}
_INSTALLERS = {
    *("pip", "pip3", "uv", "conda", "mamba", "micromamba", "npm", "pnpm", "yarn", "apt", "apt-get", "brew", "dnf"),
    *("yum", "apk", "gem", "cargo", "pipx", "poetry"),
}
_INSTALL_VERBS = {"install", "add", "i", "sync", "update", "upgrade", "remove", "uninstall"}
_BUILDERS = {"eval", "source", "."}
_INTERPRETERS = {"sh", "bash", "zsh", "dash", "python", "python3", "perl", "ruby", "node"}


def read_command(command: str) -> list[Finding]:
    """Effects in order of appearance. A command that can't be read says so."""
    if len(command) > _LARGEST:
        return [("Not checked:", "the command is too long to read")]
    found: list[Finding] = []
    if "$(" in command or "`" in command or "<(" in command:
        found.append(("Runs code it builds:", command))
    try:
        words = _words(command)
    except ValueError:
        # A here-document with an odd quote, say. What the lines show by themselves is better than nothing.
        words = list(_readable_words(command))
        found.append(("Not checked:", "part of the command can't be read"))
    part: list[str] = []
    for word in (*words, ";"):
        if _is_separator(word):
            found.extend(_simple(part))
            part = []
        else:
            part.append(word)
    return found


def _words(command: str) -> list[str]:
    """Words and punctuation, comments left out. Raises `ValueError` for a quote that does not end."""
    lexer = shlex.shlex(command.replace("\\\n", " "), posix=True, punctuation_chars=_PUNCTUATION)
    lexer.whitespace = " \t\r"
    lexer.whitespace_split = True
    lexer.commenters = ""
    words: list[str] = []
    in_comment = False
    for word in lexer:
        in_comment = "\n" not in word if in_comment else word.startswith("#")
        if not in_comment:
            words.append(word)
    return words


def _readable_words(command: str) -> Iterator[str]:
    for line in command.split("\n"):
        with suppress(ValueError):
            yield from (*_words(line), "\n")


def _is_separator(word: str) -> bool:
    return word in ("{", "}") or (bool(word) and set(word) <= set(";&|()\n"))


def _is_redirect(word: str) -> bool:
    return bool(word) and set(word) <= set("<>&|") and bool(set(word) & set("<>"))


def _simple(words: list[str]) -> Iterator[Finding]:
    """One command without separators."""
    rest: list[str] = []
    redirect = ""
    for word in words:
        if redirect:
            if ">" in redirect and not redirect.endswith("&") and word != "/dev/null":
                yield "Writes files:", word
            redirect = ""
        elif _is_redirect(word):
            redirect = word
            if rest and rest[-1] in ("0", "1", "2"):
                rest.pop()
        else:
            rest.append(word)
    while rest and (rest[0] in _PREFIXES or "=" in rest[0].split("/")[0] or rest[0].startswith("-")):
        rest.pop(0)
    if rest and rest[0] in ("sudo", "doas"):
        yield "Runs as administrator:", " ".join(words)
        rest = [word for word in rest[1:] if not word.startswith("-")]
    if rest:
        yield from _program(rest[0].rpartition("/")[2], rest[1:])


def _program(name: str, arguments: list[str]) -> Iterator[Finding]:
    operands = [word for word in arguments if not word.startswith("-")]
    shown = " ".join([name, *arguments])
    if name in _DELETE or (name == "find" and "-delete" in arguments) or (name == "git" and operands[:1] == ["clean"]):
        yield "Deletes files:", " ".join(operands) if name in _DELETE else shown
    if name in _WRITE:
        yield "Writes files:", " ".join(operands)
    if name in _WRITE_LAST and operands:
        yield "Writes files:", operands[-1]
    if name in ("sed", "perl") and any(word.startswith(("-i", "--in-place")) for word in arguments):
        yield "Writes files:", operands[-1] if operands else ""
    if name == "dd":
        yield from (("Writes files:", word[3:]) for word in arguments if word.startswith("of="))
    if name in _INSTALLERS and _INSTALL_VERBS & set(operands):
        yield "Installs packages:", shown
    if name in _INTERPRETERS and arguments[:2] == ["-m", "pip"] and _INSTALL_VERBS & set(operands):
        yield "Installs packages:", shown
    elif name in _BUILDERS or (name in _INTERPRETERS and (not operands or {"-c", "-e"} & set(arguments))):
        yield "Runs code it builds:", shown
    if name in _NETWORK or (name == "git" and operands and operands[0] in _GIT_NETWORK):
        yield "Uses the network:", shown
