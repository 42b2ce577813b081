"""`BudgetLimits`: the hard limits of a run, or of a conversation."""

import math
from dataclasses import asdict, dataclass


@dataclass(frozen=True, slots=True)
class BudgetLimits:
    """Hard limits; `None` means no limit. `seconds` counts the time in which a run works, not the time in which it only
    waits for a person. Raises `ValueError` for an amount of money below 0, or one that is no number."""

    tokens: int | None = None
    usd: float | None = None
    """US dollars. A run whose cost can't be known pauses or ends; a local model costs nothing."""
    tool_calls: int | None = None
    seconds: float | None = None
    steps: int | None = None

    def __post_init__(self) -> None:
        if self.usd is not None and not 0 <= self.usd < math.inf:
            raise ValueError("usd is a number from 0 up")

    def given(self) -> dict[str, float]:
        """The limits that there are, by name."""
        return {name: value for name, value in asdict(self).items() if value is not None}
