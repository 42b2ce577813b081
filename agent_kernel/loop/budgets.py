"""Hard limits of a run."""

import time

from agent_kernel.errors import BudgetExceeded
from agent_kernel.protocol.views import BudgetLimits, Usage

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
    """Counts a run's time against its limits. Seconds are measured on the monotonic clock."""

    def __init__(self, limits: BudgetLimits) -> None:
        self._limits = limits
        self._started = time.monotonic()

    def check(self, usage: Usage) -> None:
        """Raises `BudgetExceeded` when another model call would go over a limit."""
        spent = {
            "tokens": usage.total_tokens,
            "tool_calls": usage.tool_calls,
            "steps": usage.steps,
            "seconds": time.monotonic() - self._started,
        }
        for name, value in spent.items():
            limit = getattr(self._limits, name)
            if limit is not None and value >= limit:
                words = name.replace("_", " ")
                raise BudgetExceeded(
                    f"Budget reached: {value:,.0f} of {limit:,.0f} {words}. The run stopped before its next model "
                    "call. Nothing is lost: send another prompt to go on, with a larger budget if you wish."
                )
