"""The cost of each turn of a model in tokens and dollars: one row per turn, for totals."""

import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from agent_kernel.protocol.lists import ConversationUsage, DayUsage, ModelUsage, NotebookUsage, UsageReport, UsageTotals

COST_DIGITS = 12
"""Costs are whole numbers of 10^-12 dollars, so that sums are exact: the cheapest tokens cost 10,000 of them."""


@dataclass(frozen=True, slots=True)
class Turn:
    model: str
    host: str
    """Of the model's endpoint; empty for a model without one."""
    input_tokens: int
    cached_tokens: int
    cache_write_tokens: int
    output_tokens: int
    reasoning_tokens: int
    usd: Decimal | None
    """`None` if the price is not known."""
    partial: bool
    """Whether it may have cost more than `usd`."""


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


MOST_LISTED = 100

_TOTALS = (
    "count(*) AS turns, total(input_tokens) AS input_tokens, total(cached_tokens) AS cached_tokens, "
    "total(cache_write_tokens) AS cache_write_tokens, total(output_tokens) AS output_tokens, "
    "total(reasoning_tokens) AS reasoning_tokens, sum(turns.cost) AS cost, coalesce(max(partial), 0) AS cost_is_partial"
)


def read_report(sql: sqlite3.Connection, days: int, now: datetime | None = None) -> UsageReport:
    """The usage of the last `days` days (UTC), today included."""
    today = (now or datetime.now(UTC)).replace(hour=0, minute=0, second=0, microsecond=0)
    since = today - timedelta(days=days - 1)
    start = int(since.timestamp())
    with_notebook = "turns LEFT JOIN conversations ON conversations.number = turns.conversation"
    [totals] = _read(sql, start, "turns")
    return UsageReport(
        days=days,
        since=f"{since:%Y-%m-%d}",
        totals=UsageTotals(**totals),
        by_model=[ModelUsage(**row) for row in _read(sql, start, "turns", "model", "host")],
        by_day=[DayUsage(**row) for row in _read(sql, start, "turns", "date(at, 'unixepoch') AS day", most=days)],
        by_notebook=[
            NotebookUsage(**row) for row in _read(sql, start, with_notebook, "conversations.notebook_path AS notebook")
        ],
        by_conversation=[
            ConversationUsage(**row)
            for row in _read(
                sql,
                start,
                with_notebook.replace("LEFT JOIN", "JOIN"),
                "conversations.conversation_id AS conversation_id",
                "conversations.notebook_path AS notebook",
            )
        ],
    )


def _read(
    sql: sqlite3.Connection, start: int, source: str, *keys: str, most: int = MOST_LISTED
) -> Iterator[dict[str, Any]]:
    """The totals since a time in seconds, grouped by `keys`, those with the newest turns first."""
    names = [key.rpartition(" AS ")[2] for key in keys]
    grouped = f"GROUP BY {', '.join(names)} ORDER BY max(turns.number) DESC LIMIT {most}" if keys else ""
    found = sql.execute(f"SELECT {', '.join((*keys, _TOTALS))} FROM {source} WHERE at >= ? {grouped}", (start,))
    columns = [column[0] for column in found.description]
    for row in found:
        values = dict(zip(columns, row, strict=True))
        if values["cost"] is not None:
            values["cost"] = float(Decimal(values["cost"]).scaleb(-COST_DIGITS))
        yield values
