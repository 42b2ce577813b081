"""Finds the effects of shell commands by reading their words. They may do more."""

import re
from collections.abc import Iterator

from agent_kernel.tools.review.findings import Effect, Finding
from agent_kernel.tools.review.shell_lines import Redirect, SimpleCommand
from agent_kernel.tools.review.shell_programs import running, runs_code

_LARGEST = 50_000
_THIS_PYTHON = "{sys.executable}"
"""IPython replaces this by the path of the interpreter."""


def _programs(names: dict[Effect, str]) -> dict[str, Effect]:
    return {name: effect for effect, text in names.items() for name in text.split()}


_ON_OPERANDS = _programs(
    {
        "Deletes files:": "rm rmdir unlink shred",
        "Writes files:": "tee touch mkdir truncate patch split",
    }
)
"""Effects of programs on all of their operands."""
_OF_ALL = _programs(
    {
        "Runs as administrator:": "sudo doas su pkexec runuser",
        "Uses the network:": "curl wget ssh scp sftp rsync ftp nc ncat socat telnet aws gh gsutil gcloud az kaggle hf",
        "Changes permissions:": "chmod chown chgrp",
        "Stops processes:": "kill pkill killall shutdown reboot poweroff",
        "Writes to a disk:": "mkfs wipefs fdisk parted",
    }
)
"""Effects of programs whatever their words are."""
_WRITE_LAST = frozenset({"mv", "cp", "ln", "install", "rsync", "scp"})
_WITH_WORDS: tuple[tuple[str, Effect, str], ...] = (
    (
        r"pip3?|uv|conda|mamba|micromamba|p?npm|yarn|apt|apt-get|brew|dnf|apk|cargo|pipx|poetry|go|dpkg|python3? pip",
        "Installs packages:",
        r"install|add|i|ci|sync|update|upgrade|remove|uninstall|get|-i|-S",
    ),
    (r"find", "Deletes files:", r"-delete"),
    (r"rsync", "Deletes files:", r"--del.*"),
    (r"git clean", "Deletes files:", r"-[^-]*f.*|--force"),
    (r"git rm", "Deletes files:", r".*"),
    (r"git reset", "Discards changes:", r"--hard|--merge|--keep"),
    (r"git checkout", "Discards changes:", r"-f|--force|--|\."),
    (r"git restore", "Discards changes:", r".*"),
    (r"git stash", "Discards changes:", r"drop|clear"),
    (r"git branch", "Discards changes:", r"-D|-f|--force"),
    (r"git push", "Overwrites history:", r"-[^-]*[fd].*|--(?:force|mirror|delete|prune).*|\+.*|:.*"),
    (r"git (?:clone|fetch|pull|push|ls-remote)", "Uses the network:", r".*"),
    (r"sed|perl", "Writes files:", r"-i.*|--in-place.*"),
    (r"curl", "Writes files:", r"-[^-]*[oO].*|--output.*|--remote-name.*"),
    (r"wget|unzip", "Writes files:", r".*"),
    (r"tar", "Writes files:", r"-?[a-su-zA-Z]*x[a-su-zA-Z]*|-?c.*|--extract|--create"),
    (r"systemctl|service", "Stops processes:", r"stop|kill|disable|restart"),
)
"""Effects of programs, with a subcommand, that have such a word."""
_SECRET_FILES = re.compile(
    r"(?:^|/)(?:\.env(?:\..+)?|\.netrc|\.pgpass|\.(?:ssh|aws|kube|gnupg)(?:/.*)?|\.pypirc|\.git-credentials|id_\w+"
    r"|shadow)$",
    re.DOTALL,
)
_SECRET_NAMES = re.compile(r"\$\{?[A-Za-z_]*(?:KEY|TOKEN|SECRET|PASSW|CREDENTIAL)[A-Za-z_]*", re.IGNORECASE)
_DISK = re.compile(r"/dev/(?:sd|hd|vd|xvd|nvme|disk|mmcblk|loop|mapper/)")


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
        yield "Writes to a disk:" if _DISK.match(target) else "Writes files:", target
    elif "<" in redirect.operator and _SECRET_FILES.search(target):
        yield "Reads secrets:", target


def _program(command: SimpleCommand) -> Iterator[Finding]:
    name, text, words = command.program, command.text, [word.text for word in command.words[1:]]
    operands = [word for word in words if not word.startswith("-")]
    if effect := _OF_ALL.get(name.partition(".")[0]):
        yield effect, text
    if runs_code(command):
        yield "Runs code it builds:", text
    if effect := _ON_OPERANDS.get(name):
        yield effect, " ".join(operands)
    if name in _WRITE_LAST and operands:
        yield "Writes files:", operands[-1]
    for pattern, effect, wanted in _WITH_WORDS:
        verb = f"{name} {next((word for word in operands if re.fullmatch(pattern, f'{name} {word}')), '')}".rstrip()
        if re.fullmatch(pattern, verb) and any(re.fullmatch(wanted, word[:200], re.DOTALL) for word in words):
            yield effect, text
    if name == "dd":
        targets = [word[3:] for word in words if word.startswith("of=")]
        yield from (("Writes to a disk:" if _DISK.match(target) else "Writes files:", target) for target in targets)
    yield from _secrets(name, text, words)


def _secrets(name: str, text: str, words: list[str]) -> Iterator[Finding]:
    secrets = [word for word in words if _SECRET_FILES.search(word)]
    if secrets and name not in ("ls", "cd", "test", "["):
        yield "Reads secrets:", " ".join(secrets)
    elif (name in ("env", "printenv") and not words) or _SECRET_NAMES.search(text) or text in ("export -p", "set"):
        yield "Reads secrets:", text
