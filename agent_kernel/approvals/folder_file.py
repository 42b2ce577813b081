"""`.agent-kernel.toml` in a notebook's folder: a mode, rules and a budget that make runs there stricter, never looser.

    policy = "ask"                  # the most permissive mode that a run may have here
    rules = ["deny run_shell", 'ask write_file where path matches "reports/*"']

    [budget]
    tool_calls = 50

The file comes with the notebook, maybe from a stranger, so nothing in it can allow anything: what would is left out,
and said. A file that can't be read or understood fails closed: nothing runs unasked until it is mended or removed.
"""

import os
import stat
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast, get_args

from agent_kernel.approvals.limits import checked_limits, least
from agent_kernel.approvals.policy import exceeds
from agent_kernel.approvals.rule_check import check_rules
from agent_kernel.approvals.rules import Rule
from agent_kernel.errors import ConfigurationError
from agent_kernel.protocol.figures import money
from agent_kernel.protocol.views import BudgetLimits
from agent_kernel.protocol.vocabulary import PolicyMode

FILE_NAME = ".agent-kernel.toml"
MOST_BYTES = 64 * 1024
MOST_RULES = 200
MOST_CHARACTERS = 1000
_MOST_SAID = 200
_MOST_FILES_NAMED = 3
_KEYS = ("policy", "rules", "budget")
_FLAGS = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)


@dataclass(frozen=True, slots=True)
class FolderRule:
    text: str
    file: str


@dataclass(frozen=True, slots=True)
class FolderLimits:
    """What the files of a notebook's folder ask for, the nearest file first."""

    files: tuple[str, ...] = ()
    """As a person sees them from the folder: `.agent-kernel.toml`, `../.agent-kernel.toml`."""
    mode: PolicyMode | None = None
    rules: tuple[FolderRule, ...] = ()
    budget: BudgetLimits = field(default_factory=BudgetLimits)
    notes: tuple[str, ...] = ()
    """What is wrong with a file, or is left out, each in a sentence for people."""
    closed: bool = False
    """A file is broken: nothing runs unasked."""

    def and_(self, other: "FolderLimits") -> "FolderLimits":
        """Both at once: as strict as each."""
        return FolderLimits(
            files=tuple(dict.fromkeys((*self.files, *other.files))),
            mode=_stricter(self.mode, other.mode),
            rules=tuple(dict.fromkeys((*self.rules, *other.rules))),
            budget=least(self.budget, other.budget),
            notes=tuple(dict.fromkeys((*self.notes, *other.notes))),
            closed=self.closed or other.closed,
        )

    def words(self) -> str | None:
        """`.agent-kernel.toml: at most plan, 2 rules, 50 tool calls`; `None` where nothing is tightened."""
        parts = ["nothing runs unasked"] if self.closed else []
        if self.mode is not None:
            parts.append(f"at most {self.mode}")
        if self.rules:
            parts.append("1 rule" if len(self.rules) == 1 else f"{len(self.rules)} rules")
        parts += _budget_words(self.budget)
        if not parts:
            return None
        more = len(self.files) - _MOST_FILES_NAMED
        files = [*self.files[:_MOST_FILES_NAMED], *([f"{more} more"] if more > 0 else [])]
        return f"{', '.join(files)}: {', '.join(parts)}"


NO_LIMITS = FolderLimits()


def _stricter(one: PolicyMode | None, two: PolicyMode | None) -> PolicyMode | None:
    return two if one is None or exceeds(one, two) else one


def read_limits(folder: Path, root: Path | None = None) -> FolderLimits:
    """What holds in a folder: its own file and those of its parents, up to `root` (the server's) or to the root of the
    git repository that it is in, whichever is further up. It looks at the disk: call it in a thread."""
    limits = NO_LIMITS
    for place, shown in _places(folder, root):
        raw = _read(place, shown)
        if raw is not None:
            limits = limits.and_(raw if isinstance(raw, FolderLimits) else parse(raw, shown))
    return limits


def unreadable(file: str, why: str) -> FolderLimits:
    """What is wrong with a file as a whole."""
    return FolderLimits(files=(file,), notes=(_closed(file, why),), closed=True)


def parse(raw: bytes, file: str) -> FolderLimits:
    """`file` is what people call it. Never raises: what is not understood closes."""
    try:
        content = tomllib.loads(raw.decode("utf-8-sig"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, ValueError, RecursionError) as error:
        return unreadable(file, f"can't be read as TOML: {str(error)[:_MOST_SAID]}")
    limits = FolderLimits(files=(file,))
    for key, value in content.items():
        match key:
            case "policy":
                found = _mode(value, file)
            case "rules":
                found = _rules(value, file)
            case "budget":
                found = _budget(value, file)
            case _:
                found = unreadable(file, f"has {key[:_MOST_SAID]!r}, which is none of {', '.join(_KEYS)}")
        limits = limits.and_(found)
    return limits


def _mode(value: Any, file: str) -> FolderLimits:
    if not isinstance(value, str) or value not in get_args(PolicyMode):
        return unreadable(file, f"names a policy that is none of {', '.join(get_args(PolicyMode))}")
    if value == "allow":
        return FolderLimits(notes=(f'{file}: policy = "allow" changes nothing, because a file can only tighten.',))
    return FolderLimits(mode=cast("PolicyMode", value))


def _rules(value: Any, file: str) -> FolderLimits:
    if not isinstance(value, list) or not all(isinstance(text, str) for text in value):
        return unreadable(file, "has rules that are no list of texts")
    if len(value) > MOST_RULES or any(len(text) > MOST_CHARACTERS for text in value):
        return unreadable(file, f"has more than {MOST_RULES} rules, or one of more than {MOST_CHARACTERS} characters")
    limits = NO_LIMITS
    for text in value:
        try:
            rule = Rule.parse(text)
            check_rules([text])
        except ConfigurationError:
            found = unreadable(file, f"has a rule that is not understood: {text[:_MOST_SAID]!r}")
        else:
            if rule.verb == "allow":
                said = f"{file}: the rule {text[:_MOST_SAID]!r} is not used, because a file can only tighten."
                found = FolderLimits(notes=(said,))
            else:
                found = FolderLimits(rules=(FolderRule(text.strip(), file),))
        limits = limits.and_(found)
    return limits


def _budget(value: Any, file: str) -> FolderLimits:
    if not isinstance(value, dict):
        return unreadable(file, "has a budget that is no table")
    try:
        return FolderLimits(budget=checked_limits(value, "[budget]"))
    except ConfigurationError as error:
        return unreadable(file, f"can't be understood. {error}"[: _MOST_SAID * 3])


def _budget_words(budget: BudgetLimits) -> list[str]:
    said = {"tokens": "tokens", "tool_calls": "tool calls", "steps": "steps", "seconds": "s"}
    parts = [f"{limit:,.10g} {unit}" for name, unit in said.items() if (limit := getattr(budget, name)) is not None]
    return [*parts, *([money(budget.usd)] if budget.usd is not None else [])]


def _closed(file: str, why: str) -> str:
    return f"{file} {why}. Until it is mended or removed nothing runs unasked."


def _places(folder: Path, root: Path | None) -> Iterator[tuple[Path, str]]:
    """The files that may be there, each with what it is called from the folder. A folder that is reached by a link has
    the parents of both its places."""
    seen: set[str] = set()
    for path in dict.fromkeys((str(folder.absolute()), os.path.realpath(folder))):
        for parent in _up_to_the_top(Path(path), root):
            place = parent / FILE_NAME
            if str(place) not in seen:
                seen.add(str(place))
                yield place, os.path.relpath(place, path)


def _up_to_the_top(folder: Path, root: Path | None) -> Sequence[Path]:
    chain = [folder, *folder.parents]
    tops = {0} | {number for number, parent in enumerate(chain) if (parent / ".git").exists()}
    if root is not None:
        tops |= {number for number, parent in enumerate(chain) if str(parent) in _both(root)}
    return chain[: max(tops) + 1]


def _both(path: Path) -> set[str]:
    return {str(path.absolute()), os.path.realpath(path)}


def _read(place: Path, shown: str) -> bytes | FolderLimits | None:
    """The file's bytes, what is wrong with it, or `None` where there is none."""
    try:
        descriptor = os.open(place, _FLAGS)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        return unreadable(shown, f"can't be opened ({error.strerror}; a link is not followed)")
    try:
        with os.fdopen(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                return unreadable(shown, "is no regular file")
            raw = file.read(MOST_BYTES + 1)
    except OSError as error:
        return unreadable(shown, f"can't be read ({error.strerror})")
    return raw if len(raw) <= MOST_BYTES else unreadable(shown, f"has more than {MOST_BYTES // 1024} KiB")
