"""What was spent altogether: by day, model, notebook and conversation."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from agent_kernel.log.measures import Turn, add_turn, read_report
from agent_kernel.log.runs import add_conversation, delete_conversation
from agent_kernel.log.tables import make_tables

NOW = datetime(2026, 11, 21, 13, 30, tzinfo=UTC)


@pytest.fixture
def sql() -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        connection.execute("PRAGMA foreign_keys = ON")
        make_tables(connection)
        yield connection


def spend(sql: sqlite3.Connection, conversation: int, at: datetime = NOW, **fields: Any) -> None:
    turn = {"model": "gpt-5", "host": "api.openai.com", "input_tokens": 100, "cached_tokens": 40, "partial": False}
    turn |= {"cache_write_tokens": 5, "output_tokens": 10, "reasoning_tokens": 3, "usd": Decimal("0.1")}
    add_turn(sql, conversation, Turn(**turn | fields))  # type: ignore[arg-type]
    sql.execute("UPDATE turns SET at = ? WHERE number = last_insert_rowid()", (int(at.timestamp()),))


def talk(sql: sqlite3.Connection, name: str, notebook: str | None) -> int:
    return add_conversation(sql, name, None, None, notebook).number


def test_turns_are_added_up_each_way(sql: sqlite3.Connection) -> None:
    one, two, bare = talk(sql, "one", "a.ipynb"), talk(sql, "two", "a.ipynb"), talk(sql, "bare", None)
    spend(sql, one, NOW - timedelta(days=1))
    spend(sql, one)
    spend(sql, two, usd=Decimal("0.2"))
    spend(sql, bare, model="qwen", host="localhost:11434", usd=None)
    report = read_report(sql, 30, NOW)
    totals = report.totals
    assert (totals.turns, totals.input_tokens, totals.cached_tokens, totals.output_tokens) == (4, 400, 160, 40)
    assert (totals.cache_write_tokens, totals.reasoning_tokens, totals.cost_is_partial) == (20, 12, False)
    assert totals.cost == 0.4, "a sum of floats would be 0.4000000000000001"
    by_model = [(m.model, m.host, m.turns, m.cost) for m in report.by_model]
    assert by_model == [("qwen", "localhost:11434", 1, None), ("gpt-5", "api.openai.com", 3, 0.4)]
    assert [(d.day, d.turns) for d in report.by_day] == [("2026-11-21", 3), ("2026-11-20", 1)]
    assert [(n.notebook, n.turns, n.cost) for n in report.by_notebook] == [(None, 1, None), ("a.ipynb", 3, 0.4)]
    by_conversation = [(c.conversation_id, c.notebook, c.turns) for c in report.by_conversation]
    assert by_conversation == [("bare", None, 1), ("two", "a.ipynb", 1), ("one", "a.ipynb", 2)]


def test_what_a_deleted_conversation_has_cost_stays_in_the_totals(sql: sqlite3.Connection) -> None:
    spend(sql, talk(sql, "one", "secret.ipynb"))
    delete_conversation(sql, "one")
    report = read_report(sql, 30, NOW)
    assert (report.totals.cost, report.by_conversation) == (0.1, [])
    assert [(n.notebook, n.cost) for n in report.by_notebook] == [(None, 0.1)]
    assert "secret" not in report.model_dump_json()
