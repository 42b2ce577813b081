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
from typing import Annotated, Any, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from agent_kernel.approvals.limits import checked_limits, least
from agent_kernel.approvals.policy import exceeds
from agent_kernel.approvals.rules import Rule, check_rules
from agent_kernel.errors import ConfigurationError
from agent_kernel.protocol.figures import money
from agent_kernel.protocol.vocabulary import BudgetLimits, PolicyMode, WallLevel
from agent_kernel.tools.tool import faults_of

FILE_NAME = ".agent-kernel.toml"
MOST_BYTES = 64 * 1024
MOST_RULES = 200
MOST_CHARACTERS = 1000
_MOST_SAID = 400
_MOST_FILES_NAMED = 3
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


class _Content(BaseModel):
    """What a file may say."""

    model_config = ConfigDict(extra="forbid", strict=True)

    policy: PolicyMode | None = None
    rules: list[Annotated[str, Field(max_length=MOST_CHARACTERS)]] = Field(default=[], max_length=MOST_RULES)
    walls: WallLevel | None = None
    budget: dict[str, Any] = Field(default={})


def parse(raw: bytes, file: str) -> FolderLimits:
    """Parse a file's content. `file` is its name for display. Never raises: content that is not understood fails
    closed."""
    import tomllib  # most folders have no such file

    try:
        content = _Content.model_validate(tomllib.loads(raw.decode("utf-8-sig")))
        rules = [(text.strip(), Rule.parse(text).verb) for text in content.rules]
        check_rules(content.rules)
        budget = checked_limits(content.budget, "[budget]")
    except ValidationError as error:
        return unreadable(file, f"can't be understood: {faults_of(error)[:_MOST_SAID]}")
    except (ConfigurationError, ValueError, RecursionError) as error:  # no TOML is a ValueError
        return unreadable(file, f"can't be understood: {str(error)[:_MOST_SAID]}")
    loose = [f"the rule {text[:_MOST_SAID]!r} is not used" for text, verb in rules if verb == "allow"]
    loose += ['policy = "allow" changes nothing'] if content.policy == "allow" else []
    loose += ['walls = "none" changes nothing'] if content.walls == "none" else []
    return FolderLimits(
        files=(file,),
        mode=content.policy if content.policy != "allow" else None,
        rules=tuple(FolderRule(text, file) for text, verb in rules if verb != "allow"),
        walls=content.walls if content.walls != "none" else None,
        budget=budget,
        notes=tuple(f"{file}: {what}, because a file can only tighten." for what in loose),
    )


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
