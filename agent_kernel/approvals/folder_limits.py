"""`FolderLimits`: what the files in a notebook's folder limit. `folder_file` reads them."""

from dataclasses import dataclass, field
from typing import get_args

from agent_kernel.approvals.limits import least
from agent_kernel.approvals.policy import exceeds
from agent_kernel.protocol.budgets import BudgetLimits
from agent_kernel.protocol.figures import money
from agent_kernel.protocol.vocabulary import PolicyMode, WallLevel

_MOST_FILES_NAMED = 3


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


def stricter_walls(one: WallLevel, two: WallLevel | None) -> WallLevel:
    """The stricter of two levels; `None` limits nothing."""
    return one if two is None else max(one, two, key=get_args(WallLevel).index)


def _stricter(one: PolicyMode | None, two: PolicyMode | None) -> PolicyMode | None:
    return two if one is None or exceeds(one, two) else one


def _budget_words(budget: BudgetLimits) -> list[str]:
    said = {"tokens": "tokens", "tool_calls": "tool calls", "steps": "steps", "seconds": "s"}
    parts = [f"{limit:,.10g} {unit}" for name, unit in said.items() if (limit := getattr(budget, name)) is not None]
    return [*parts, *([money(budget.usd)] if budget.usd is not None else [])]
