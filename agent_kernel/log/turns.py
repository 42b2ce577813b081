"""What each turn of a model took: one row a turn, for the totals."""

import sqlite3
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal

COST_DIGITS = 12
"""Costs are whole numbers of 10^-12 dollars, so that sums are exact: the cheapest tokens cost 10,000 of them."""


@dataclass(frozen=True, slots=True)
class Turn:
    model: str
    host: str
    """Of the endpoint; empty for a model without one."""
    input_tokens: int
    cached_tokens: int
    cache_write_tokens: int
    output_tokens: int
    reasoning_tokens: int
    usd: Decimal | None
    partial: bool
    """Whether it may have cost more than that."""


def add_turn(sql: sqlite3.Connection, conversation: int, turn: Turn) -> None:
    row = (
        conversation,
        int(datetime.now(UTC).timestamp()),
        turn.model,
        turn.host,
        turn.input_tokens,
        turn.cached_tokens,
        turn.cache_write_tokens,
        turn.output_tokens,
        turn.reasoning_tokens,
        None if turn.usd is None else int(turn.usd.scaleb(COST_DIGITS)),
        turn.partial,
    )
    sql.execute(
        "INSERT INTO turns (conversation, at, model, host, input_tokens, cached_tokens, cache_write_tokens, "
        "output_tokens, reasoning_tokens, cost, partial) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        row,
    )
