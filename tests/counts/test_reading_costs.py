"""What it costs to tell a client of a conversation, counted."""

import cProfile
import pstats
import sqlite3
from pathlib import Path

import orjson
import pytest

from agent_kernel.log import queries
from agent_kernel.runtime.clients import snapshot
from agent_kernel.runtime.clients.snapshot import read_snapshot
from tests.counts.counting import CountedModel, CountedRuntime


async def validations(counted: CountedRuntime) -> int:
    """Objects that pydantic validates, or makes, for a snapshot."""
    profile = cProfile.Profile()
    name = counted.conversation.conversation_id
    await counted.log.read_apart(
        lambda sql: profile.runcall(read_snapshot, sql, name)  # type: ignore[no-untyped-call]
    )
    calls = pstats.Stats(profile).stats  # type: ignore[attr-defined]
    assert any("read_snapshot" in function for _, _, function in calls), "the work itself was not seen"
    return sum(
        count
        for (file, _, function), (_, count, *_) in calls.items()
        if "SchemaValidator" in function or (Path(file).parent.name == "pydantic" and "construct" in function)
    )


async def statements_of_the_list(counted: CountedRuntime) -> int:
    seen: list[str] = []
    await counted.log.read_apart(lambda sql: sql.set_trace_callback(seen.append))
    await counted.runtime.list_conversations()
    await counted.log.read_apart(lambda sql: sql.set_trace_callback(None))
    return sum(one.startswith("SELECT") for one in seen)


async def test_a_long_list_is_read_so_many_conversations_at_a_time_that_memory_does_not_grow_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted = await CountedRuntime.open(tmp_path / "log.sqlite", CountedModel())
    whole = [counted.conversation.conversation_id]
    for _ in range(11):
        whole.append((await counted.runtime.create_conversation()).conversation_id)
    spans: list[queries.Span] = []
    read = queries.calls

    def noted(sql: sqlite3.Connection, span: queries.Span) -> dict[int, list[queries.Values]]:
        spans.append(span)
        return read(sql, span)

    monkeypatch.setattr(queries, "calls", noted)
    monkeypatch.setattr(snapshot, "_TOGETHER", 5)
    listed = orjson.loads(await counted.runtime.list_conversations())
    assert [one["conversation_id"] for one in listed] == whole
    assert spans == [(1, 5), (6, 10), (11, 12)]
    await counted.runtime.aclose()


async def test_a_snapshot_validates_nothing_that_the_log_holds(tmp_path: Path) -> None:
    counted = await CountedRuntime.open(tmp_path / "log.sqlite", CountedModel(calls=2))
    for _ in range(5):
        await counted.run()
    assert len(orjson.loads((await counted.conversation.snapshot()).text)["tool_calls"]) == 10
    assert await validations(counted) == 0
    await counted.runtime.aclose()


async def test_a_list_is_as_many_statements_for_many_conversations_as_for_one(tmp_path: Path) -> None:
    counted = await CountedRuntime.open(tmp_path / "log.sqlite", CountedModel(calls=1))
    await counted.run()
    one = await statements_of_the_list(counted)
    for _ in range(10):
        counted.conversation = await counted.runtime.create_conversation()
        await counted.run()
    many = await statements_of_the_list(counted)
    assert len(orjson.loads(await counted.runtime.list_conversations())) == 11
    assert many == one <= 6
    await counted.runtime.aclose()
