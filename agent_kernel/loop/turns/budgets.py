"""Hard limits of a run."""

import time
from typing import Self

from agent_kernel.errors import BudgetExceeded
from agent_kernel.protocol.figures import money
from agent_kernel.protocol.views import BudgetLimits, RunView, Usage
from agent_kernel.protocol.vocabulary import Limit

Budget = BudgetLimits
"""The public name: `ak.Budget(tokens=, usd=, tool_calls=, seconds=, steps=)`."""


def tighter(asked: BudgetLimits, default: BudgetLimits) -> BudgetLimits:
    """What a run asked for, filled up with the host's defaults."""
    return BudgetLimits(
        **{
            name: value if (value := getattr(asked, name)) is not None else getattr(default, name)
            for name in BudgetLimits.model_fields
        }
    )


class Meter:
    """The time that a run takes, without its pauses, on the monotonic clock."""

    def __init__(self, spent: float = 0.0) -> None:
        self._spent = spent
        self._since: float | None = time.monotonic()

    @classmethod
    def of(cls, run: RunView) -> Self:
        """The meter of a run that begins now, or goes on as its row has it."""
        if run.paused is None:
            return cls()
        meter = cls(run.paused.seconds)
        meter.pause()
        return meter

    @property
    def seconds(self) -> float:
        return self._spent + (time.monotonic() - self._since if self._since is not None else 0.0)

    def pause(self) -> None:
        self._spent, self._since = self.seconds, None

    def go_on(self) -> None:
        if self._since is None:
            self._since = time.monotonic()


def check(limits: BudgetLimits, usage: Usage, seconds: float) -> None:
    """Raises `BudgetExceeded` when another model call would go over a limit."""
    spent = _spent(usage, seconds)
    reached = [name for name, value in spent.items() if (limit := _limit(limits, name)) is not None and value >= limit]
    if not reached:
        return
    said = ", ".join(_said(name, spent[name], _limit(limits, name) or 0) for name in reached)
    raise BudgetExceeded(
        f"Budget reached: {said}. The run stopped before its next model call. "
        "Nothing is lost: send another prompt to go on, with a larger budget if you wish.",
        reached,
    )


def calls_left(run: RunView) -> int | None:
    """How many calls the run may still start; `None` where there is no limit."""
    limit = run.budget.tool_calls
    return None if limit is None else max(0, limit - run.usage.tool_calls)


def unpriced(limits: BudgetLimits, why: str) -> BudgetExceeded:
    """For a limit in US dollars on a run whose cost can't be known."""
    return BudgetExceeded(
        f"{why}, so the budget of {money(limits.usd or 0)} can't be checked. The run stopped before its next model "
        "call. Nothing is lost: send another prompt to go on, with a budget in tokens if you wish.",
        ["usd"],
        unpriced=True,
    )


def raised(limits: BudgetLimits, add: BudgetLimits, usage: Usage, seconds: float) -> BudgetLimits:
    """The limits with something added. It counts from what is spent, where that is past the limit already."""
    spent = _spent(usage, seconds)
    more = {
        name: max(limit, spent[name]) + extra
        for name in spent
        if (limit := _limit(limits, name)) is not None and (extra := _limit(add, name)) is not None
    }
    return BudgetLimits.model_validate(limits.model_dump() | more)


def _spent(usage: Usage, seconds: float) -> dict[Limit, float]:
    return {
        "tokens": usage.total_tokens,
        "usd": usage.cost or 0.0,
        "tool_calls": usage.tool_calls,
        "steps": usage.steps,
        "seconds": seconds,
    }


def _said(name: Limit, spent: float, limit: float) -> str:
    if name == "usd":  # with one sign of the dollar: between two, a notebook shows mathematics
        return f"{money(spent)} of {money(limit).removeprefix('$')} US dollars"
    return f"{spent:,.0f} of {limit:,.0f} {name.replace('_', ' ')}"


def _limit(limits: BudgetLimits, name: Limit) -> float | None:
    value: float | None = getattr(limits, name)
    return value
