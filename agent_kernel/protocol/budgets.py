"""`BudgetLimits`: the hard limits of a run, or of a conversation."""

from dataclasses import asdict, dataclass
from typing import Annotated

from agent_kernel.protocol.bounds import Bounds


@dataclass(frozen=True, slots=True)
class BudgetLimits:
    """Hard limits; `None` means no limit. `seconds` counts the time in which a run works, not the time in which it only
    waits for a person."""

    tokens: int | None = None
    usd: Annotated[float | None, Bounds(ge=0, allow_inf_nan=False)] = None
    """US dollars. A run whose cost can't be known pauses or ends; a local model costs nothing."""
    tool_calls: int | None = None
    seconds: float | None = None
    steps: int | None = None

    def given(self) -> dict[str, float]:
        """The limits that there are, by name."""
        return {name: value for name, value in asdict(self).items() if value is not None}
