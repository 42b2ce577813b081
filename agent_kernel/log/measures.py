"""The measures of calls, runs and turns of a model, with what turns cost: one row for each that has ended, written with
its end, and read for reports.

A row has numbers and words of closed sets; of the conversation it has no word, and it outlives it. Names that a model
made up are not in it: a call of a tool that nobody declared counts as `unknown`.
"""

import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import islice
from typing import Any

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


Row = dict[str, Any]

_DAY = "date(at, 'unixepoch') AS day"
_CALLS = f"SELECT *, {_DAY} FROM call_measures WHERE {{}} ORDER BY number DESC"
_TURNS = (
    f"SELECT turns.*, {_DAY}, notebook_path AS notebook, conversation_id "
    "FROM turns LEFT JOIN conversations ON conversations.number = conversation WHERE at >= ? ORDER BY turns.number DESC"
)
_TOKENS = "input_tokens", "cached_tokens", "cache_write_tokens", "output_tokens", "reasoning_tokens"


def _rows(sql: sqlite3.Connection, query: str, value: int | str) -> list[Row]:
    found = sql.execute(query, (value,))
    names = [column[0] for column in found.description]
    return [dict(zip(names, row, strict=True)) for row in found]


def _grouped(rows: Iterable[Row], *keys: str, most: int = MOST_LISTED) -> list[tuple[Row, list[Row]]]:
    """The values of `keys`, each with its rows, those with the newest rows first."""
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row[key] for key in keys), []).append(row)
    return [(dict(zip(keys, values, strict=True)), group) for values, group in islice(groups.items(), most)]


def _known(rows: Sequence[Row], column: str) -> list[Any]:
    return [row[column] for row in rows if row[column] is not None]


def _calls(rows: Sequence[Row]) -> Row:
    """The fields of `CallTotals`."""
    waits, times = _known(rows, "wait_ms"), _known(rows, "call_ms")
    return {
        "calls": len(rows),
        "outcomes": dict(Counter(row["outcome"] for row in rows)),
        "decided_by": dict(Counter(_known(rows, "decided_by"))),
        "errors": dict(Counter(_known(rows, "error"))),
        "asked": len(waits),
        "wait_seconds": sum(waits) / 1000,
        "ran": len(times),
        "call_seconds": sum(times) / 1000,
        "longest_call_seconds": max(times, default=0) / 1000,
        "result_bytes": sum(_known(rows, "result_bytes")),
        "truncated": sum(row["truncated"] for row in rows),
        "cache_hits": sum(row["cached"] for row in rows),
    }


def _usage(rows: Sequence[Row]) -> Row:
    """The fields of `UsageTotals`."""
    costs = _known(rows, "cost")
    return {
        "turns": len(rows),
        **{name: sum(row[name] for row in rows) for name in _TOKENS},
        "cost": float(Decimal(sum(costs)).scaleb(-COST_DIGITS)) if costs else None,
        "cost_is_partial": any(row["partial"] for row in rows),
    }


def _tokens(usage: UsageTotals | Usage) -> Tokens:
    counts: Tokens = {
        "input": usage.input_tokens,
        "cached": usage.cached_tokens,
        "output": usage.output_tokens,
        "reasoning": usage.reasoning_tokens,
    }
    return {kind: count for kind, count in counts.items() if count}


def _first_day(days: int, now: datetime | None) -> datetime:
    """The first of the last `days` days (UTC), today included."""
    today = (now or datetime.now(UTC)).replace(hour=0, minute=0, second=0, microsecond=0)
    return today - timedelta(days=days - 1)


def read_report(sql: sqlite3.Connection, days: int, now: datetime | None = None) -> UsageReport:
    """The usage of the last `days` days (UTC), today included."""
    since = _first_day(days, now)
    turns = _rows(sql, _TURNS, int(since.timestamp()))
    known = [turn for turn in turns if turn["conversation_id"] is not None]
    return UsageReport(
        days=days,
        since=f"{since:%Y-%m-%d}",
        totals=UsageTotals(**_usage(turns)),
        by_model=[ModelUsage(**keys, **_usage(rows)) for keys, rows in _grouped(turns, "model", "host")],
        by_day=[DayUsage(**keys, **_usage(rows)) for keys, rows in _grouped(turns, "day", most=days)],
        by_notebook=[NotebookUsage(**keys, **_usage(rows)) for keys, rows in _grouped(turns, "notebook")],
        by_conversation=[
            ConversationUsage(**keys, **_usage(rows)) for keys, rows in _grouped(known, "conversation_id", "notebook")
        ],
    )


def read_run_metrics(sql: sqlite3.Connection, run: RunView) -> RunMetrics:
    """The measures of one run."""
    row = sql.execute("SELECT first_token_ms FROM run_measures WHERE run_id = ?", (run.run_id,)).fetchone()
    return RunMetrics(
        **_calls(_rows(sql, _CALLS.format("run_id = ?"), run.run_id)),
        steps=run.usage.steps,
        first_token_seconds=None if row is None or row[0] is None else row[0] / 1000,
        tokens=_tokens(run.usage),
        cost=run.usage.cost,
    )


def read_metrics(sql: sqlite3.Connection, days: int, now: datetime | None = None) -> MetricsReport:
    """The measures of the last `days` days (UTC), today included."""
    since = _first_day(days, now)
    start = int(since.timestamp())
    calls, turns = _rows(sql, _CALLS.format("at >= ?"), start), _rows(sql, _TURNS, start)
    runs = _rows(sql, "SELECT * FROM run_measures WHERE at >= ?", start)
    firsts = _known(runs, "first_token_ms")
    each = _grouped(calls, "tool", "model", "day", most=MOST_ROWS)
    return MetricsReport(
        days=days,
        since=f"{since:%Y-%m-%d}",
        totals=CallTotals(**_calls(calls)),
        runs=RunTotals(
            runs=len(runs),
            statuses=dict(Counter(run["status"] for run in runs)),
            steps=sum(run["steps"] for run in runs),
            answered=len(firsts),
            first_token_seconds=sum(firsts) / 1000,
        ),
        **_spent(turns),
        by_tool=[ToolMetrics(**keys, **_calls(rows)) for keys, rows in _grouped(calls, "tool")],
        by_model=[ModelMetrics(**fields) for fields in _with_spent(calls, turns, "model")],
        by_day=[DayMetrics(**fields) for fields in _with_spent(calls, turns, "day", most=days)],
        rows=[ToolModelDayMetrics(**keys, **_calls(rows)) for keys, rows in each],
    )


def _spent(turns: Sequence[Row]) -> Row:
    usage = UsageTotals(**_usage(turns))
    return {"tokens": _tokens(usage), "cost": usage.cost}


def _with_spent(calls: Sequence[Row], turns: Sequence[Row], key: str, most: int = MOST_LISTED) -> Iterator[Row]:
    """Calls with tokens and cost, also of what was spent without a call."""
    for keys, _ in _grouped([*calls, *turns], key, most=most):
        called, asked = ([row for row in rows if row[key] == keys[key]] for rows in (calls, turns))
        yield keys | _calls(called) | _spent(asked)
