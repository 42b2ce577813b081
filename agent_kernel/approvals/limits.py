"""Validates budget limits, and combines two sets of them."""

import math
from collections.abc import Mapping
from numbers import Real
from typing import Any

from agent_kernel.errors import ConfigurationError
from agent_kernel.protocol.vocabulary import BudgetLimits, Limit

LIMITS: Mapping[Limit, int] = {"tokens": 10**12, "usd": 10**9, "tool_calls": 10**9, "seconds": 10**9, "steps": 10**9}
"""The known limits and the largest value of each. `usd` is in US dollars, `seconds` in seconds of work."""
_WHOLE: frozenset[Limit] = frozenset({"tokens", "tool_calls", "steps"})


def checked_limits(limits: Mapping[str, object], named: str = "budget") -> BudgetLimits:
    """Validate limits from a configuration or a notebook; `None` means no limit. `named` says in the message where they
    come from. A limit of 0 is reached before a run begins.

    Raises `ConfigurationError`, which names the field, for anything but a number from 0 up.
    """
    if unknown := set(limits) - set(LIMITS):
        raise ConfigurationError(
            f"{named}: {', '.join(sorted(map(repr, unknown)))} is no limit. Use {', '.join(LIMITS)}."
        )
    found = {name: value for name in LIMITS if (value := limits.get(name)) is not None}
    checked: dict[str, Any] = {name: _checked(value, name, named) for name, value in found.items()}
    return BudgetLimits(**checked)


def _checked(value: object, name: Limit, named: str) -> float:
    number, said = math.nan, type(value).__name__
    if not isinstance(value, bool) and isinstance(value, Real):
        try:
            number = float(value)
        except OverflowError:  # an int that is too large for a float
            number = math.inf
        said = f"{number:g}"
    most = LIMITS[name]
    if not 0 <= number <= most or (name in _WHOLE and not number.is_integer()):
        kind = "a whole number" if name in _WHOLE else "a number"
        raise ConfigurationError(
            f"{named}: {name} must be {kind} from 0 to {most:,}, not {said}. Leave it out for no limit."
        )
    return int(number) if name in _WHOLE else number


def least(limits: BudgetLimits, other: BudgetLimits) -> BudgetLimits:
    """The smaller of each limit, for a source that may only tighten."""
    pairs = {name: (getattr(limits, name), getattr(other, name)) for name in LIMITS}
    return BudgetLimits(
        **{name: min((one for one in pair if one is not None), default=None) for name, pair in pairs.items()}
    )
