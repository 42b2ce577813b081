"""Formats numbers, token counts and costs for records and messages. Cards do the same in widgets/src/text/format.ts."""

from decimal import ROUND_DOWN, ROUND_HALF_UP, Decimal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agent_kernel.protocol.views import Usage


def plural(number: int, name: str) -> str:
    """`1 line`, `4,001 lines`."""
    return f"{number:,} {name}{'' if number == 1 else 's'}"


def left_out(lines: int, characters: int) -> str:
    """How much of a text is not shown: its whole lines, and all characters, also those of a line that is shown in
    part. `3 lines, 240 characters left out`; within a line `10,502 characters left out`."""
    parts = [plural(lines, "line")] if lines else []
    return f"{', '.join([*parts, plural(characters, 'character')])} left out"


def tokens(count: int) -> str:
    """`900`, `1.2k`, `3.4M`."""
    if count < 1_000:
        return str(count)
    if count < 1_000_000:
        return f"{_rounded(count / 1_000, 1)}k"
    return f"{_rounded(count / 1_000_000, 1)}M"


def money(usd: float, *, at_least: bool = False) -> str:
    """`$1.20`, `$0.013`, `$0.01`, `< $0.001`; a lower bound, which is rounded down, as `≥ $1.20`, `> $0`."""
    if usd == 0 and not at_least:
        return "$0"
    if usd < 0.001:
        return "> $0" if at_least else "< $0.001"
    places = 3 if usd < 0.1 else 2
    amount = _floor(usd, places) if at_least else _rounded(usd, places)
    said = f"{amount:,}"
    return f"{'≥ ' if at_least else ''}${said.removesuffix('0') if places == 3 else said}"


def spent(usage: "Usage") -> list[str]:
    """The parts of a usage line: `["1.2k in", "340 out", "$0.004"]`; `["about 1.2k in", "340 out"]` if tokens are
    estimated; `$0.004 by the service` if that is the service's own figure. The cost is omitted if no price is known."""
    about = "about " if usage.estimated else ""
    parts = (
        [f"{about}{tokens(usage.input_tokens)} in", f"{tokens(usage.output_tokens)} out"] if usage.total_tokens else []
    )
    if usage.cost is not None:
        whose = " by the service" if usage.cost_is_reported else ""
        parts.append(money(usage.cost, at_least=usage.cost_is_partial) + whose)
    return parts


def _rounded(value: float, places: int) -> Decimal:
    """Rounds as JavaScript's `toFixed` does, so that cards and records agree."""
    return Decimal(value).quantize(Decimal(1).scaleb(-places), ROUND_HALF_UP)


def _floor(value: float, places: int) -> Decimal:
    return Decimal(repr(value)).quantize(Decimal(1).scaleb(-places), ROUND_DOWN)
