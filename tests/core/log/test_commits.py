"""Events and messages are read as they were written; of writes at the same time each is all or nothing."""

import asyncio
import sqlite3
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from agent_kernel.errors import LogUnavailable
from agent_kernel.log import message_rows, runs, tool_calls
from agent_kernel.log.event_rows import Frame, frames_after
from agent_kernel.log.store import Log, Transaction
from agent_kernel.log.tables import make_tables
from agent_kernel.protocol.events import TokenEvent

ID = "conv_1"
Work = Callable[[Transaction], Any]


class OpenLog:
    """A log with one conversation, and the frames that its clients were handed."""

    def __init__(self, log: Log) -> None:
        self.log = log
        self.handed: list[Frame] = []

    async def say(self, text: str) -> int:
        return await self.log.write(saying(text))

    async def at_once(self, *works: Work) -> list[Any]:
        """The results, or what they raised, of writes that the log's thread finds all waiting."""
        gate = threading.Event()
        held = asyncio.create_task(self.log.read(lambda _sql: gate.wait(10)))
        writes = [asyncio.create_task(self.log.write(work)) for work in works]
        await asyncio.sleep(0)  # all are asked for
        gate.set()
        await held
        return await asyncio.gather(*writes, return_exceptions=True)

    async def kept(self) -> list[Frame]:
        return await self.log.read(lambda sql: frames_after(sql, 1, ID, 0, 10_000))


def say(transaction: Transaction, text: str) -> int:
    """The number that it got."""
    transaction.append(1, ID, TokenEvent(message_id="msg_1", content=text))
    return transaction.frames[-1].seq


def saying(text: str) -> Work:
    return lambda transaction: say(transaction, text)


@pytest.fixture
async def opened(tmp_path: Path) -> AsyncIterator[OpenLog]:
    log = await Log.open(tmp_path / "log.sqlite")
    one = OpenLog(log)
    await log.write(lambda transaction: runs.add_conversation(transaction.sql, ID, None, None, None))
    log.listen(1, one.handed.extend)
    yield one
    await log.aclose()


async def numbers(opened: OpenLog) -> list[int]:
    return [frame.seq for frame in await opened.kept()]


async def test_a_write_that_fails_takes_back_its_own_events_and_no_others(opened: OpenLog) -> None:
    def fails(transaction: Transaction) -> None:
        say(transaction, "never said")
        raise ValueError("no")

    results = await opened.at_once(saying("a"), saying("b"), fails, saying("c"), saying("d"))
    assert [str(result) for result in results] == ["1", "2", "no", "3", "4"]
    assert [frame.text.split('"content":')[1] for frame in await opened.kept()] == ['"a"}', '"b"}', '"c"}', '"d"}']
    assert opened.handed == await opened.kept()


async def test_where_a_fault_of_the_disk_takes_back_a_whole_commit_all_of_it_are_told(opened: OpenLog) -> None:
    def torn(transaction: Transaction) -> None:
        say(transaction, "never said")
        transaction.sql.execute("ROLLBACK")  # as SQLite itself does after some faults
        raise sqlite3.OperationalError("disk I/O error")

    await opened.say("before")
    results = await opened.at_once(saying("a"), torn, saying("b"))
    assert [type(result) for result in results] == [LogUnavailable, LogUnavailable, int]
    await opened.say("after")
    assert await numbers(opened) == [1, 2, 3]
    assert opened.handed == await opened.kept()


async def test_what_is_asked_for_once_the_log_is_closed_is_refused_as_by_a_log_that_takes_nothing(
    opened: OpenLog,
) -> None:
    last = opened.log.submit(saying("asked for before"))
    await opened.log.aclose()
    assert await last == 1
    for refused in (opened.say("after"), opened.kept(), opened.log.read_apart(lambda sql: None)):
        with pytest.raises(LogUnavailable, match="is closed"):
            await refused


TEXTS = ["", "one\ntwo\r\n", '"type":"tool_output"', "\x00\x1f\x7f\u2028", "run_a", "long " * 4_000, "é" * 40_000]


@pytest.fixture
def sql() -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        make_tables(connection)
        for name in ("conv_1", "conv_2"):
            runs.add_conversation(connection, name, None, None, None)
        yield connection


def test_messages_are_read_as_they_were_said(sql: sqlite3.Connection) -> None:
    bodies = [{"role": "tool", "tool_call_id": f"c{number}", "content": text} for number, text in enumerate(TEXTS)]
    for body in bodies:
        name = body["tool_call_id"]
        proposal = tool_calls.Proposal(name, name, "run_a", "look", "{}", "d", read_only=True, recorded=False)
        tool_calls.propose(sql, 1, proposal)
        tool_calls.move(sql, 1, name, "superseded", [], result=body["content"])
    bodies.append({"role": "tool", "tool_call_id": "c0", "content": "a shorter text than the call's result"})
    for body in bodies:
        message_rows.append_message(sql, 1, "m", "run_a", body)
    assert [body for _, _, body in message_rows.read_messages(sql, 1)] == bodies
