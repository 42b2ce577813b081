"""The measures of calls, runs and turns of a model, with what turns cost: one row for each that has ended, written with
its end, and read for reports.

A row has numbers and words of closed sets; of the conversation it has no word, and it outlives it. Names that a model
made up are not in it: a call of a tool that nobody declared counts as `unknown`.
"""

import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, get_args

from agent_kernel.log.runs import read_run
from agent_kernel.protocol.lists import ConversationUsage, DayUsage, ModelUsage, NotebookUsage, UsageReport, UsageTotals
from agent_kernel.protocol.metrics import (
    CallTotals,
    DayMetrics,
    MetricsReport,
    ModelMetrics,
    RunMetrics,
    RunTotals,
    Tokens,
    ToolMetrics,
    ToolModelDayMetrics,
)
from agent_kernel.protocol.views import RunView, ToolCallView, Usage
from agent_kernel.protocol.vocabulary import CallState, DecisionSource, ErrorKind, RunStatus

UNKNOWN_TOOL = "unknown"
RECORDING, CLIENT = "recording", "MCP client"
"""In place of the model's name where no model was asked."""
MOST_LISTED, MOST_ROWS = 100, 1_000
COST_DIGITS = 12
"""Costs are whole numbers of 10^-12 dollars, so that sums are exact: the cheapest tokens cost 10,000 of them."""


@dataclass(frozen=True, slots=True)
class CallMeasure:
    """A call that has ended. The fields are columns of its row, but for `of_server`."""

    tool: str
    model: str
    outcome: CallState
    decided_by: DecisionSource | None
    error: ErrorKind | None
    wait_ms: int | None
    call_ms: int | None
    result_bytes: int | None
    truncated: bool
    cached: bool
    of_server: bool = False
    """Whether the tool is an MCP server's."""


@dataclass(frozen=True, slots=True)
class RunMeasure:
    """A run that has ended, perhaps not for the first time. The fields are columns of its row."""

    model: str
    status: RunStatus
    steps: int
    first_token_ms: int | None


@dataclass(frozen=True, slots=True)
class Turn:
    """A turn of a model, and what it cost. The fields are columns of its row, but for `usd`."""

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


Measure = CallMeasure | Turn | RunMeasure
"""What listeners are told after the commit."""

_DECLARED = (
    "SELECT json_extract(value, '$.runs_in'), json_extract(value, '$.origin.server') "
    "FROM runs JOIN tool_sets ON tool_set = digest, json_each(tools) "
    "WHERE run_id = ? AND json_extract(value, '$.name') = ?"
)


def add_call(sql: sqlite3.Connection, call: ToolCallView, *, timed_out: bool) -> CallMeasure:
    """Write the measures of a call, in the transaction that ends it."""
    asked_at, source = sql.execute(
        "SELECT asked_at, decision_source FROM tool_calls WHERE approval_id = ?", (call.approval_id,)
    ).fetchone()
    declared = sql.execute(_DECLARED, (call.run_id, call.tool_name)).fetchone()
    runs_in, server = declared or (None, None)
    cached = call.cached_at is not None
    wait, ran = _milliseconds(asked_at, call.decided_at or call.ended_at), call.duration_ms
    if runs_in == "page" and ran is not None and source not in ("script", "recording"):
        wait, ran = (wait or 0) + (_milliseconds(call.started_at, call.ended_at) or 0), None  # a person's answer
    measure = CallMeasure(
        tool=UNKNOWN_TOOL if declared is None else call.tool_name,
        model=_model(read_run(sql, call.run_id)),
        outcome=call.state,
        decided_by=source,
        error=_error(call.state, timed_out=timed_out),
        wait_ms=wait,
        call_ms=ran,
        result_bytes=None if call.duration_ms is None and not cached else len((call.result or "").encode()),
        truncated=call.truncated,
        cached=cached,
        of_server=server is not None,
    )
    columns = asdict(measure)
    del columns["of_server"]
    _insert(sql, "call_measures", columns | {"run_id": call.run_id, "at": _seconds(call.ended_at)})
    return measure


def add_run(sql: sqlite3.Connection, run: RunView, first_token_seconds: float | None) -> RunMeasure:
    """Write the measures of a run, in the transaction that ends it. The end of one that was tried again counts."""
    first = None if first_token_seconds is None else round(first_token_seconds * 1000)
    measure = RunMeasure(_model(run), run.status, run.usage.steps, first)
    _insert(sql, "run_measures", asdict(measure) | {"run_id": run.run_id, "at": _seconds(run.ended_at)})
    return measure


def add_turn(sql: sqlite3.Connection, conversation: int, turn: Turn) -> None:
    columns = asdict(turn)
    usd = columns.pop("usd")
    cost = None if usd is None else int(usd.scaleb(COST_DIGITS))
    _insert(sql, "turns", columns | {"conversation": conversation, "at": _seconds(None), "cost": cost})


def _seconds(at: str | None) -> int:
    """A time of the log, or now, in seconds since 1970."""
    return int((datetime.fromisoformat(at) if at is not None else datetime.now(UTC)).timestamp())


def _insert(sql: sqlite3.Connection, table: str, columns: dict[str, Any]) -> None:
    names, places = ", ".join(columns), ", ".join("?" * len(columns))
    sql.execute(f"INSERT OR REPLACE INTO {table} ({names}) VALUES ({places})", tuple(columns.values()))


def _model(run: RunView) -> str:
    return RECORDING if run.recorded else CLIENT if run.client is not None else run.model


def _milliseconds(since: str | None, until: str | None) -> int | None:
    """Between two times of the log; zero where the clock was put back. `None` where one is missing."""
    if since is None or until is None:
        return None
    passed = datetime.fromisoformat(until) - datetime.fromisoformat(since)
    return max(0, passed // timedelta(milliseconds=1))


def _error(state: CallState, *, timed_out: bool) -> ErrorKind | None:
    match state:
        case "error":
            return "timed_out" if timed_out else "failed"
        case "invalid" | "unknown":
            return state
        case _:
            return None


_WORDS: dict[str, tuple[str, Sequence[str]]] = {
    "outcomes": ("outcome", get_args(CallState)),
    "decided_by": ("decided_by", get_args(DecisionSource)),
    "errors": ("error", get_args(ErrorKind)),
}
"""The dictionaries of `CallTotals`: the column of each, and its closed set of words."""
_FIGURES = {
    "calls": "count(*)",
    "asked": "count(wait_ms)",
    "wait_seconds": "total(wait_ms) / 1000",
    "ran": "count(call_ms)",
    "call_seconds": "total(call_ms) / 1000",
    "longest_call_seconds": "coalesce(max(call_ms), 0) / 1000.0",
    "result_bytes": "coalesce(sum(result_bytes), 0)",
    "truncated": "coalesce(sum(truncated), 0)",
    "cache_hits": "coalesce(sum(cached), 0)",
}
_COUNTS = {
    f"{name} {word}": f"coalesce(sum({column} = '{word}'), 0)"
    for name, (column, words) in _WORDS.items()
    for word in words
}
_COSTS = {
    "turns": "count(*)",
    **{name: f"total({name})" for name in ("input_tokens", "cached_tokens", "cache_write_tokens", "output_tokens")},
    "reasoning_tokens": "total(reasoning_tokens)",
    "cost": "sum(turns.cost)",
    "cost_is_partial": "coalesce(max(partial), 0)",
}
_DAY = "date(at, 'unixepoch') AS day"


def _grouped(
    sql: sqlite3.Connection,
    figures: Mapping[str, str],
    source: str,
    value: int | str,
    keys: Sequence[str],
    most: int = MOST_LISTED,
) -> Iterator[dict[str, Any]]:
    """Figures of the rows of `source`, grouped by `keys`, those with the newest rows first."""
    table, names = source.split()[0], [key.rpartition(" AS ")[2] for key in keys]
    grouped = f"GROUP BY {', '.join(names)} ORDER BY max({table}.number) DESC LIMIT {most}" if keys else ""
    wanted = [*keys, *(f"{figure} AS '{name}'" for name, figure in figures.items())]
    for row in sql.execute(f"SELECT {', '.join(wanted)} FROM {source} {grouped}", (value,)):
        yield dict(zip([*names, *figures], row, strict=True))


def _read(
    sql: sqlite3.Connection, where: str, value: int | str, *keys: str, most: int = MOST_LISTED
) -> list[dict[str, Any]]:
    """The fields of `CallTotals`."""
    rows = _grouped(sql, _FIGURES | _COUNTS, f"call_measures WHERE {where}", value, keys, most)
    return [_with_counts(row) for row in rows]


def _with_counts(row: dict[str, Any]) -> dict[str, Any]:
    counts = {
        name: {word: count for word in words if (count := row.pop(f"{name} {word}"))}
        for name, (_, words) in _WORDS.items()
    }
    return row | counts


def read_report(sql: sqlite3.Connection, days: int, now: datetime | None = None) -> UsageReport:
    """The usage of the last `days` days (UTC), today included."""
    today = (now or datetime.now(UTC)).replace(hour=0, minute=0, second=0, microsecond=0)
    since = today - timedelta(days=days - 1)

    def read(*keys: str, joined: str = "", most: int = MOST_LISTED) -> Iterator[dict[str, Any]]:
        for row in _grouped(sql, _COSTS, f"turns {joined} WHERE at >= ?", int(since.timestamp()), keys, most):
            cost = row["cost"]
            yield row | {"cost": None if cost is None else float(Decimal(cost).scaleb(-COST_DIGITS))}

    conversations = "JOIN conversations ON conversations.number = turns.conversation"
    notebook = "conversations.notebook_path AS notebook"
    [totals] = read()
    return UsageReport(
        days=days,
        since=f"{since:%Y-%m-%d}",
        totals=UsageTotals(**totals),
        by_model=[ModelUsage(**row) for row in read("model", "host")],
        by_day=[DayUsage(**row) for row in read(_DAY, most=days)],
        by_notebook=[NotebookUsage(**row) for row in read(notebook, joined=f"LEFT {conversations}")],
        by_conversation=[
            ConversationUsage(**row)
            for row in read("conversations.conversation_id AS conversation_id", notebook, joined=conversations)
        ],
    )


def read_run_metrics(sql: sqlite3.Connection, run: RunView) -> RunMetrics:
    """The measures of one run."""
    [totals] = _read(sql, "run_id = ?", run.run_id)
    row = sql.execute("SELECT first_token_ms FROM run_measures WHERE run_id = ?", (run.run_id,)).fetchone()
    return RunMetrics(
        **totals,
        steps=run.usage.steps,
        first_token_seconds=None if row is None or row[0] is None else row[0] / 1000,
        tokens=_tokens(run.usage),
        cost=run.usage.cost,
    )


def read_metrics(sql: sqlite3.Connection, days: int, now: datetime | None = None) -> MetricsReport:
    """The measures of the last `days` days (UTC), today included."""
    usage = read_report(sql, days, now)
    start = int(datetime.fromisoformat(f"{usage.since}T00:00:00+00:00").timestamp())
    since = "at >= ?"
    [totals] = _read(sql, since, start)
    by_model, by_day = _read(sql, since, start, "model"), _read(sql, since, start, _DAY, most=days)
    spent_by_model = _by_name(usage.by_model)
    spent_by_day = {one.day: one for one in usage.by_day}
    return MetricsReport(
        days=days,
        since=usage.since,
        totals=CallTotals(**totals),
        runs=_read_runs(sql, start),
        tokens=_tokens(usage.totals),
        cost=usage.totals.cost,
        by_tool=[ToolMetrics(**row) for row in _read(sql, since, start, "tool")],
        by_model=[ModelMetrics(**row) for row in _with_spent(by_model, "model", spent_by_model)],
        by_day=[DayMetrics(**row) for row in _with_spent(by_day, "day", spent_by_day)],
        rows=[ToolModelDayMetrics(**row) for row in _read(sql, since, start, "tool", "model", _DAY, most=MOST_ROWS)],
    )


def _read_runs(sql: sqlite3.Connection, start: int) -> RunTotals:
    statuses = get_args(RunStatus)
    counts = ", ".join(f"coalesce(sum(status = '{status}'), 0)" for status in statuses)
    runs, steps, answered, first, *of_status = sql.execute(
        "SELECT count(*), coalesce(sum(steps), 0), count(first_token_ms), total(first_token_ms) / 1000, "
        f"{counts} FROM run_measures WHERE at >= ?",
        (start,),
    ).fetchone()
    return RunTotals(
        runs=runs,
        statuses={status: count for status, count in zip(statuses, of_status, strict=True) if count},
        steps=steps,
        answered=answered,
        first_token_seconds=first,
    )


def _tokens(usage: UsageTotals | Usage) -> Tokens:
    counts: Tokens = {
        "input": usage.input_tokens,
        "cached": usage.cached_tokens,
        "output": usage.output_tokens,
        "reasoning": usage.reasoning_tokens,
    }
    return {kind: count for kind, count in counts.items() if count}


def _by_name(models: Sequence[ModelUsage]) -> dict[str, UsageTotals]:
    """The usage of models, of one at several hosts together."""
    found: dict[str, UsageTotals] = {}
    for one in models:
        before = found.get(one.model, UsageTotals())
        costs = [Decimal(repr(cost)) for cost in (before.cost, one.cost) if cost is not None]
        found[one.model] = UsageTotals(
            input_tokens=before.input_tokens + one.input_tokens,
            cached_tokens=before.cached_tokens + one.cached_tokens,
            output_tokens=before.output_tokens + one.output_tokens,
            reasoning_tokens=before.reasoning_tokens + one.reasoning_tokens,
            cost=float(sum(costs)) if costs else None,
        )
    return found


def _with_spent(rows: list[dict[str, Any]], key: str, spent: Mapping[str, UsageTotals]) -> Iterable[dict[str, Any]]:
    """The rows with tokens and cost, and rows for what was spent without a call."""
    without_calls = [{key: name} for name in spent if all(row[key] != name for row in rows)]
    for row in [*rows, *without_calls]:
        usage = spent.get(row[key], UsageTotals())
        yield row | {"tokens": _tokens(usage), "cost": usage.cost}
