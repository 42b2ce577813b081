"""Finds the effects of shell commands by reading their words. They may do more."""

import re
from collections.abc import Iterator

from agent_kernel.tools.review.findings import Effect, Finding
from agent_kernel.tools.review.shell_lines import Redirect, SimpleCommand
from agent_kernel.tools.review.shell_programs import running, runs_code

_LARGEST = 50_000
_DELETE = {"rm", "rmdir", "unlink", "shred"}
_WRITE = {"tee", "touch", "mkdir", "truncate", "patch", "split"}
_WRITE_LAST = {"mv", "cp", "ln", "install", "rsync", "scp"}
_NETWORK = {
    "curl",
    "wget",
    "ssh",
    "scp",
    "sftp",
    "rsync",
    "ftp",
    "nc",
    "ncat",
    "socat",
    "telnet",
    "aws",
    "gh",
    "gsutil",
}
_NETWORK |= {"gcloud", "az", "kaggle", "hf"}
_GIT_NETWORK = {"clone", "fetch", "pull", "push", "ls-remote"}
_INSTALLERS = {
    *("pip", "pip3", "uv", "conda", "mamba", "micromamba", "npm", "pnpm", "yarn", "apt", "apt-get", "brew", "dnf"),
    *("yum", "apk", "gem", "cargo", "pipx", "poetry", "go", "dpkg"),
}
_INSTALL_VERBS = {"install", "add", "i", "ci", "sync", "update", "upgrade", "remove", "uninstall", "get", "-i", "-S"}
_THIS_PYTHON = "{sys.executable}"
"""IPython replaces this by the path of the interpreter."""
_PYTHONS = {"python", "python3", "pypy", "pypy3"}
_RIGHTS = {"chmod", "chown", "chgrp"}
_STOPS = {"kill", "pkill", "killall", "shutdown", "reboot", "poweroff"}
_ADMINISTRATOR = {"sudo", "doas", "su", "pkexec", "runuser"}
_DISKS = re.compile(r"mkfs(\..+)?|wipefs|fdisk|parted")
_SECRET_FILES = re.compile(
    r"(?:^|/)(?:\.env(?:\..+)?|\.netrc|\.pgpass|\.(?:ssh|aws|kube|gnupg)(?:/.*)?|\.pypirc|\.git-credentials|id_\w+|shadow)$",
    re.DOTALL,
)
_SECRET_NAMES = re.compile(r"\$\{?[A-Za-z_]*(?:KEY|TOKEN|SECRET|PASSW|CREDENTIAL)[A-Za-z_]*", re.IGNORECASE)
_GIT: tuple[tuple[Effect, str, str], ...] = (
    ("Discards changes:", "reset", r"--hard|--merge|--keep"),
    ("Discards changes:", "checkout", r"-f|--force|--|\."),
    ("Discards changes:", "restore", r".*"),
    ("Discards changes:", "stash", r"drop|clear"),
    ("Discards changes:", "branch", r"-D|-f|--force"),
    ("Deletes files:", "clean", r"-[^-]*f.*|--force"),
    ("Deletes files:", "rm", r".*"),
    ("Overwrites history:", "push", r"-[^-]*[fd].*|--(?:force|mirror|delete|prune).*|\+.*|:.*"),
)
"""Git commands that discard something, with the arguments that cause it."""


def read_command(command: str) -> list[Finding]:
    """The effects in order of appearance. A command that can't be read is reported as not checked."""
    if len(command) > _LARGEST:
        return [("Not checked:", "the command is too long to read")]
    seen = running(command.replace(_THIS_PYTHON, "python"))
    found: list[Finding] = []
    if seen.substitutes:
        found.append(("Runs code it builds:", command))
    if not seen.readable:
        found.append(("Not checked:", "part of the command can't be read"))
    for each in seen.commands:
        found.extend(_program(each))
    for redirect in seen.redirects:
        found.extend(_redirect(redirect))
    return found


def _redirect(redirect: Redirect) -> Iterator[Finding]:
    target = redirect.target.text
    if "/dev/tcp/" in target or "/dev/udp/" in target:
        yield "Uses the network:", target
    elif ">" in redirect.operator and target != "/dev/null" and not re.fullmatch(r"\d*-?", target):
        yield "Writes to a disk:" if _is_disk(target) else "Writes files:", target
    elif "<" in redirect.operator and _SECRET_FILES.search(target):
        yield "Reads secrets:", target


def _program(command: SimpleCommand) -> Iterator[Finding]:
    name, arguments = command.program, [word.text for word in command.words[1:]]
    operands = [word for word in arguments if not word.startswith("-")]
    if name in _ADMINISTRATOR:
        yield "Runs as administrator:", command.text
    if runs_code(command):
        yield "Runs code it builds:", command.text
    yield from _files(name, command.text, arguments, operands)
    yield from _machine(name, command.text, arguments, operands)
    if name == "git":
        yield from _git(command.text, arguments, operands)
    if (name in _INSTALLERS and _INSTALL_VERBS & {*operands, *arguments[:1]}) or (
        name in _PYTHONS and arguments[:2] == ["-m", "pip"] and _INSTALL_VERBS & set(operands)
    ):
        yield "Installs packages:", command.text
    if name in _NETWORK:
        yield "Uses the network:", command.text


def _files(name: str, text: str, arguments: list[str], operands: list[str]) -> Iterator[Finding]:
    if name in _DELETE:
        yield "Deletes files:", " ".join(operands)
    if (name == "find" and "-delete" in arguments) or (name == "rsync" and any("--del" in word for word in arguments)):
        yield "Deletes files:", text
    if name in _WRITE:
        yield "Writes files:", " ".join(operands)
    if name in _WRITE_LAST and operands:
        yield "Writes files:", operands[-1]
    if name in ("sed", "perl") and any(word.startswith(("-i", "--in-place")) for word in arguments):
        yield "Writes files:", operands[-1] if operands else ""
    if name == "unzip" or (name == "tar" and "t" not in "".join(arguments[:1])):
        yield "Writes files:", text
    if (name == "curl" and any(re.match(r"-[^-]*[oO]|--output|--remote-name", word) for word in arguments)) or (
        name == "wget" and not {"-O-", "--spider"} & set(arguments)
    ):
        yield "Writes files:", text
    if name == "dd":
        yield from (
            ("Writes to a disk:" if _is_disk(word[3:]) else "Writes files:", word[3:])
            for word in arguments
            if word.startswith("of=")
        )


def _machine(name: str, text: str, arguments: list[str], operands: list[str]) -> Iterator[Finding]:
    if _DISKS.fullmatch(name):
        yield "Writes to a disk:", text
    if name in _RIGHTS:
        yield "Changes permissions:", text
    if name in _STOPS or (name in ("systemctl", "service") and {"stop", "kill", "disable", "restart"} & set(operands)):
        yield "Stops processes:", text
    secrets = [word for word in arguments if _SECRET_FILES.search(word)]
    if secrets and name not in ("ls", "cd", "test", "["):
        yield "Reads secrets:", " ".join(secrets)
    elif (name in ("env", "printenv") and not operands) or _SECRET_NAMES.search(text) or text in ("export -p", "set"):
        yield "Reads secrets:", text


def _git(text: str, arguments: list[str], operands: list[str]) -> Iterator[Finding]:
    verb = next((word for word in operands if word in {each for _, each, _ in _GIT} | _GIT_NETWORK), "")
    rest = arguments[arguments.index(verb) + 1 :] if verb else []
    for effect, wanted, argument in _GIT:
        if verb == wanted and any(re.fullmatch(argument, word) for word in rest or ([""] if argument == ".*" else [])):
            yield effect, text
    if verb in _GIT_NETWORK:
        yield "Uses the network:", text


def _is_disk(target: str) -> bool:
    return re.match(r"/dev/(?:sd|hd|vd|xvd|nvme|disk|mmcblk|loop|mapper/)", target) is not None
