"""Hard limits of a run."""

import time
from typing import Self

from agent_kernel.errors import BudgetExceeded
from agent_kernel.protocol.views import BudgetLimits, RunView, Usage
from agent_kernel.protocol.vocabulary import Limit

Budget = BudgetLimits
"""The public name: `ak.Budget(tokens=, tool_calls=, seconds=, steps=)`."""


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
    said = ", ".join(f"{spent[name]:,.0f} of {_limit(limits, name):,.0f} {name.replace('_', ' ')}" for name in reached)
    raise BudgetExceeded(
        f"Budget reached: {said}. The run stopped before its next model call. "
        "Nothing is lost: send another prompt to go on, with a larger budget if you wish.",
        reached,
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
    return {"tokens": usage.total_tokens, "tool_calls": usage.tool_calls, "steps": usage.steps, "seconds": seconds}


def _limit(limits: BudgetLimits, name: Limit) -> float | None:
    value: float | None = getattr(limits, name)
    return value
