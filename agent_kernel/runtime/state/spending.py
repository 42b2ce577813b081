"""What makes a run pause: the budgets of runs and conversations, with what is spent, and a run that repeats itself."""

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, Self

from agent_kernel.approvals.limits import LIMITS
from agent_kernel.errors import BudgetExceeded
from agent_kernel.protocol.figures import money
from agent_kernel.protocol.views import ConversationBudget, RunView, ToolCallView, Usage
from agent_kernel.protocol.vocabulary import BudgetLimits, BudgetOf, Limit

_SUMMED = tuple(name for name, field in Usage.model_fields.items() if field.annotation is int)


def filled_up(asked: BudgetLimits, default: BudgetLimits) -> BudgetLimits:
    """The limits that a run asked for, with the host's defaults for the others."""
    return BudgetLimits(
        **{name: value if (value := getattr(asked, name)) is not None else getattr(default, name) for name in LIMITS}
    )


class Meter:
    """Measures the time that a run has worked, on the monotonic clock. Paused while the run only waits for a person."""

    def __init__(self, spent: float = 0.0) -> None:
        self._spent = spent
        self._since: float | None = None
        self.first_token_seconds: float | None = None
        """What it had measured when the first piece of an answer came."""

    @classmethod
    def of(cls, run: RunView) -> Self:
        """The meter of a run that is about to begin, or to continue from its row. It is paused."""
        return cls(run.usage.seconds if run.paused is None else run.paused.seconds)

    @property
    def stands(self) -> bool:
        return self._since is None

    @property
    def seconds(self) -> float:
        return self._spent + (time.monotonic() - self._since if self._since is not None else 0.0)

    @property
    def rounded(self) -> float:
        """As the log keeps it."""
        return round(self.seconds, 3)

    def note_answer(self) -> None:
        if self.first_token_seconds is None:
            self.first_token_seconds = self.seconds

    def pause(self) -> None:
        if self._since is not None:
            self._spent, self._since = self.seconds, None

    def go_on(self) -> None:
        if self._since is None:
            self._since = time.monotonic()


@dataclass(frozen=True, slots=True)
class Budget:
    """Limits, and what is spent of them."""

    of: BudgetOf
    limits: BudgetLimits
    usage: Usage
    seconds: float

    def check(self) -> None:
        """Raises `BudgetExceeded` when another model call would go over a limit."""
        spent = _spent(self.usage, self.seconds)
        limits = {name: limit for name in spent if (limit := _limit(self.limits, name)) is not None}
        reached = [name for name, limit in limits.items() if spent[name] >= limit]
        if not reached:
            return
        said = ", ".join(_said(name, spent[name], limits[name], self.usage) for name in reached)
        whose = "Budget reached" if self.of == "run" else "The budget of this conversation is reached"
        advice = "send another prompt" if self.of == "run" else "begin a new conversation, or send another prompt"
        raise BudgetExceeded(
            f"{whose}: {said}.",
            f"Nothing is lost: {advice} to go on, with a larger budget if you wish.",
            reached,
            of=self.of,
        )

    def unpriced(self, why: str) -> BudgetExceeded:
        """The error for a limit in US dollars where the cost can't be known."""
        whose = "" if self.of == "run" else "of this conversation "
        return BudgetExceeded(
            f"{why}, so the budget {whose}of {money(self.limits.usd or 0)} can't be checked.",
            "Nothing is lost: send another prompt to go on, with a budget in tokens if you wish.",
            ["usd"],
            of=self.of,
            unpriced=True,
        )

    def raised(self, add: BudgetLimits) -> BudgetLimits:
        """The limits raised by `add`, each counted from what is spent where that is past the limit already."""
        spent = _spent(self.usage, self.seconds)
        more: dict[str, Any] = {
            name: max(limit, spent[name]) + extra
            for name in spent
            if (limit := _limit(self.limits, name)) is not None and (extra := _limit(add, name)) is not None
        }
        return replace(self.limits, **more)


def budgets_of(run: RunView, meter: Meter) -> list[Budget]:
    """The run's own budget, and that of its conversation, of which the run is a part, where it has one."""
    budgets = [Budget("run", run.budget, run.usage, meter.seconds)]
    if (whole := run.conversation_budget) is not None:
        usage, seconds = together(whole.spent, run.usage), whole.spent.seconds + meter.seconds
        budgets.append(Budget("conversation", whole.limits, usage, seconds))
    return budgets


def seconds_left(budgets: Iterable[Budget]) -> tuple[float, str] | None:
    """How long a run may still work, and the reason to give once it may not; `None` without a limit."""
    limits = [(one, one.limits.seconds) for one in budgets]
    found = [
        (limit - one.seconds, f"The {one.of}'s time budget of {limit:g} s is used up.")
        for one, limit in limits
        if limit is not None
    ]
    return min(found, default=None)


def calls_left(budgets: Iterable[Budget]) -> tuple[int, str] | None:
    """How many calls a run may still start, and the reason to give for the others; `None` without a limit."""
    limits = [(one, one.limits.tool_calls) for one in budgets]
    found = [
        (max(0, limit - one.usage.tool_calls), f"The {one.of}'s budget of tool calls is reached.")
        for one, limit in limits
        if limit is not None
    ]
    return min(found, default=None)


def together(one: Usage, other: Usage) -> Usage:
    """The usage of two runs together."""
    costs = [Decimal(repr(cost)) for cost in (one.cost, other.cost) if cost is not None]
    return Usage(
        **{name: getattr(one, name) + getattr(other, name) for name in _SUMMED},
        seconds=round(one.seconds + other.seconds, 3),
        cost=float(sum(costs)) if costs else None,
        cost_is_partial=one.cost_is_partial or other.cost_is_partial,
        cost_is_reported=one.cost_is_reported or other.cost_is_reported,
        estimated=one.estimated or other.estimated,
    )


def conversation_budget(limits: BudgetLimits, earlier: Iterable[RunView]) -> ConversationBudget | None:
    """The conversation's budget for its next run; `None` without limits. `earlier` are the runs before it, the last one
    first: they are read up to one that knows the usage before it."""
    if limits == BudgetLimits():
        return None
    spent, raised, without_usd = Usage(), BudgetLimits(), False
    for run in earlier:
        spent = together(spent, run.usage)
        if (before := run.conversation_budget) is not None:
            spent, raised, without_usd = together(spent, before.spent), before.raised, before.without_usd
            break
    now = _plus(limits, raised)
    return ConversationBudget(
        limits=replace(now, usd=None) if without_usd else now,
        spent=spent,
        raised=raised,
        without_usd=without_usd,
    )


def with_raised(budget: ConversationBudget, limits: BudgetLimits) -> ConversationBudget:
    """The budget after a person has raised it to these limits."""
    more: dict[str, Any] = {name: _limit(limits, name) for name in LIMITS}
    for name in LIMITS:
        before, now = _limit(budget.limits, name), more[name]
        already = _limit(budget.raised, name) or 0
        more[name] = now - before + already if before is not None and now is not None else already or None
    lifted = budget.limits.usd is not None and limits.usd is None
    return budget.model_copy(
        update={
            "limits": limits,
            "raised": BudgetLimits(**more),
            "without_usd": budget.without_usd or lifted,
        }
    )


def _plus(limits: BudgetLimits, more: BudgetLimits) -> BudgetLimits:
    sums: dict[str, Any] = {
        name: limit + (_limit(more, name) or 0) for name in LIMITS if (limit := _limit(limits, name)) is not None
    }
    return BudgetLimits(**sums)


def _spent(usage: Usage, seconds: float) -> dict[Limit, float]:
    return {
        "tokens": usage.total_tokens,
        "usd": usage.cost or 0.0,
        "tool_calls": usage.tool_calls,
        "steps": usage.steps,
        "seconds": seconds,
    }


def _said(name: Limit, spent: float, limit: float, usage: Usage) -> str:
    if name == "usd":  # with one sign of the dollar: between two, a notebook shows mathematics
        return f"{money(spent)} of {money(limit).removeprefix('$')} US dollars"
    about = "about " if name == "tokens" and usage.estimated else ""
    return f"{about}{spent:,.0f} of {limit:,.0f} {name.replace('_', ' ')}"


def _limit(limits: BudgetLimits, name: Limit) -> float | None:
    value: float | None = getattr(limits, name)
    return value


SAME_TIMES, PATTERN_TIMES = 3, 4
"""The number of times that one step in a row, or two steps in turn, count as a repetition."""
_TIMES = {SAME_TIMES: "three times", PATTERN_TIMES: "four times in turn"}


class Repeats:
    """Detects a run that repeats itself: the same calls with the same results, step after step, since a person has let
    it continue. A step is the calls of one model turn. Calls whose results differ, such as polling, repeat nothing."""

    def __init__(self) -> None:
        self._steps: tuple[int, ...] = ()
        self._tools: tuple[tuple[str, ...], ...] = ()

    def add(self, step: Sequence[ToolCallView]) -> None:
        """Note the calls of a step, which have ended. The texts themselves are not kept, only hashes."""
        done = hash(tuple(sorted((one.tool_name, one.tool_input, one.result or "") for one in step)))
        self._steps = (*self._steps, done)[-2 * PATTERN_TIMES :]
        self._tools = (*self._tools, tuple(one.tool_name for one in step))[-2:]

    def forget(self) -> None:
        self._steps = self._tools = ()

    def found(self) -> str:
        """A description of what is repeated; empty where nothing is."""
        steps = self._steps
        if len(steps) >= SAME_TIMES and len(set(steps[-SAME_TIMES:])) == 1:
            return _told(self._tools[-1], SAME_TIMES)
        if len(steps) == 2 * PATTERN_TIMES and len(set(steps[::2])) == len(set(steps[1::2])) == 1:
            return _told([*self._tools[0], *self._tools[1]], PATTERN_TIMES)
        return ""


def _told(tools: Sequence[str], times: int) -> str:
    names = list(dict.fromkeys(tools))
    listed = f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else names[0]
    same = "the same result" if len(tools) == 1 else "the same results"
    return f"{listed} gave {same} to the same arguments {_TIMES[times]}"
