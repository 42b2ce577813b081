"""`.agent-kernel.toml` in a notebook's folder: a mode, rules, walls and a budget. They make runs there stricter, never
looser.

    policy = "ask"                  # the most permissive mode that a run may have here
    rules = ["deny run_shell", 'ask write_file where path matches "reports/*"']
    walls = "read-only"             # around shell commands, at least

    [budget]
    tool_calls = 50

The file comes with the notebook, perhaps from a stranger, so nothing in it can allow anything: entries that would are
ignored and reported. A file that can't be read or parsed fails closed: nothing runs unasked until it is fixed or
removed.
"""

import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast, get_args

from agent_kernel.approvals.limits import checked_limits, least
from agent_kernel.approvals.policy import exceeds
from agent_kernel.approvals.rules import Rule, check_rules
from agent_kernel.errors import ConfigurationError
from agent_kernel.protocol.figures import money
from agent_kernel.protocol.vocabulary import BudgetLimits, PolicyMode, WallLevel

FILE_NAME = ".agent-kernel.toml"
MOST_BYTES = 64 * 1024
MOST_RULES = 200
MOST_CHARACTERS = 1000
_MOST_SAID = 200
_MOST_FILES_NAMED = 3
_KEYS = ("policy", "rules", "walls", "budget")
_FLAGS = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)


@dataclass(frozen=True, slots=True)
class FolderRule:
    """A rule, and the file that has it."""

    text: str
    file: str


@dataclass(frozen=True, slots=True)
class FolderLimits:
    """The limits from all files that apply to a notebook's folder, the nearest file first."""

    files: tuple[str, ...] = ()
    """Paths relative to the folder, for display: `.agent-kernel.toml`, `../.agent-kernel.toml`."""
    mode: PolicyMode | None = None
    rules: tuple[FolderRule, ...] = ()
    walls: WallLevel | None = None
    budget: BudgetLimits = field(default_factory=BudgetLimits)
    notes: tuple[str, ...] = ()
    """Faults and ignored entries of the files, each as a sentence for display."""
    closed: bool = False
    """Whether a file is broken, so that nothing runs unasked."""

    def and_(self, other: "FolderLimits") -> "FolderLimits":
        """The limits of both, which is at least as strict as either."""
        return FolderLimits(
            files=tuple(dict.fromkeys((*self.files, *other.files))),
            mode=_stricter(self.mode, other.mode),
            rules=tuple(dict.fromkeys((*self.rules, *other.rules))),
            walls=other.walls if self.walls is None else stricter_walls(self.walls, other.walls),
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
        if self.walls is not None:
            parts.append(f"walls {self.walls}")
        parts += _budget_words(self.budget)
        if not parts:
            return None
        more = len(self.files) - _MOST_FILES_NAMED
        files = [*self.files[:_MOST_FILES_NAMED], *([f"{more} more"] if more > 0 else [])]
        return f"{', '.join(files)}: {', '.join(parts)}"


NO_LIMITS = FolderLimits()


def read_limits(folder: Path, root: Path | None = None) -> FolderLimits:
    """Read the limits that apply in a folder: its own file and those of its parents, up to `root` (the server's) or to
    the root of the git repository that it is in, whichever is further up. It blocks on the disk: call it in a thread.
    """
    limits = NO_LIMITS
    for place, shown in _places(folder, root):
        raw = _read(place, shown)
        if raw is not None:
            limits = limits.and_(raw if isinstance(raw, FolderLimits) else parse(raw, shown))
    return limits


def unreadable(file: str, why: str) -> FolderLimits:
    """The limits of a file that can't be used: nothing runs unasked."""
    return FolderLimits(files=(file,), notes=(_closed(file, why),), closed=True)


def parse(raw: bytes, file: str) -> FolderLimits:
    """Parse a file's content. `file` is its name for display. Never raises: content that is not understood fails
    closed."""
    import tomllib  # most folders have no such file

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
            case "walls":
                found = _walls(value, file)
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


def _walls(value: Any, file: str) -> FolderLimits:
    if value not in get_args(WallLevel):
        return unreadable(file, f"names walls that are none of {', '.join(get_args(WallLevel))}")
    if value == "none":
        return FolderLimits(notes=(f'{file}: walls = "none" changes nothing, because a file can only tighten.',))
    return FolderLimits(files=(file,), walls=cast("WallLevel", value))


def _budget(value: Any, file: str) -> FolderLimits:
    if not isinstance(value, dict):
        return unreadable(file, "has a budget that is no table")
    try:
        return FolderLimits(budget=checked_limits(value, "[budget]"))
    except ConfigurationError as error:
        return unreadable(file, f"can't be understood. {error}"[: _MOST_SAID * 3])


def _closed(file: str, why: str) -> str:
    return f"{file} {why}. Until it is mended or removed nothing runs unasked."


def _places(folder: Path, root: Path | None) -> Iterator[tuple[Path, str]]:
    """Candidate files, each with its path relative to the folder. A folder that is reached by a link has two chains of
    parents, and both count."""
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
    """The file's bytes, or the limits of an unusable file, or `None` if there is no file."""
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


def stricter_walls(one: WallLevel, two: WallLevel | None) -> WallLevel:
    """The stricter of two levels; `None` limits nothing."""
    return one if two is None else max(one, two, key=get_args(WallLevel).index)


def _stricter(one: PolicyMode | None, two: PolicyMode | None) -> PolicyMode | None:
    return two if one is None or exceeds(one, two) else one


def _budget_words(budget: BudgetLimits) -> list[str]:
    said = {"tokens": "tokens", "tool_calls": "tool calls", "steps": "steps", "seconds": "s"}
    parts = [f"{limit:,.10g} {unit}" for name, unit in said.items() if (limit := getattr(budget, name)) is not None]
    return [*parts, *([money(budget.usd)] if budget.usd is not None else [])]
