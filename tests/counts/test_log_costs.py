"""What a run costs in SQL, counted: a cost that creeps in shows here before anybody could time it."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from agent_kernel.log import store
from tests.counts.counting import CountedModel, CountedRuntime

Open = Callable[..., Any]


@pytest.fixture
async def opened(tmp_path: Path) -> AsyncIterator[Open]:
    """Opens a counted runtime whose first run, which fills caches, is over."""
    runtimes: list[CountedRuntime] = []

    async def make(**model: int) -> CountedRuntime:
        counted = await CountedRuntime.open(tmp_path / f"{len(runtimes)}.sqlite", CountedModel(**model))
        runtimes.append(counted)
        await counted.run()
        counted.clear()
        return counted

    yield make
    for counted in runtimes:
        await counted.runtime.aclose()


async def cost_of_a_step(opened: Open, *verbs: str) -> float:
    """What each of four more calls adds to a run with one, in statements that begin with one of these verbs."""
    counts = []
    for calls in (1, 5):
        counted = await opened(calls=calls)
        await counted.run()
        counts.append(sum(counted.count(verb) for verb in verbs or ("",)))
    return (counts[1] - counts[0]) / 4


async def test_a_tool_step_is_two_commits(opened: Open) -> None:
    """The turn with its call, the decision and the start; the outcome. Each is an fsync at most: a unit of work that
    waits while another is written shares the next commit, and has a savepoint there."""
    assert await cost_of_a_step(opened, "BEGIN", "SAVEPOINT") <= 2


async def test_a_tool_step_is_a_dozen_statements(opened: Open) -> None:
    assert await cost_of_a_step(opened) <= 13


async def test_an_approved_call_is_one_commit_from_its_decision_and_no_look_at_the_history(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The decision and the start, before the executor has the call."""
    monkeypatch.setattr(store, "HEAD_SECONDS", 600)  # its look at the audit's head is none of them
    counted = await CountedRuntime.open(tmp_path / "log.sqlite", CountedModel(calls=1))
    until_the_executor: list[str] = []

    def entered(*_: object) -> str:
        until_the_executor.extend(counted.sql)
        return "ok"

    counted.executor.act = entered
    await counted.run("ask", before_decision=counted.clear)
    await counted.runtime.aclose()
    assert until_the_executor.count("COMMIT") == 1
    reads = [one for one in until_the_executor if one.startswith("SELECT")]
    assert not [one for one in reads if "FROM messages" in one or "FROM events" in one]
    assert len(until_the_executor) <= 12


async def test_a_run_without_calls_is_five_commits(opened: Open) -> None:
    counted = await opened(calls=0)
    await counted.run()
    assert counted.count("COMMIT") <= 5


async def test_an_event_costs_a_handful_of_statements(opened: Open) -> None:
    counted = await opened(calls=5)
    await counted.run()
    assert counted.count() <= 6 * len(await counted.events())


async def test_a_burst_of_a_thousand_tokens_is_one_commit_and_few_frames(opened: Open) -> None:
    few, many = await opened(tokens=10), await opened(tokens=1_000)
    await few.run()
    await many.run()
    assert many.count("INSERT INTO events") == few.count("INSERT INTO events"), "a row for each unit of work"
    tokens = [event for event in await many.events() if event.type == "token"]
    assert len(tokens) <= 2
    assert "".join(event.content for event in tokens) == "".join(f"{number:04d} " for number in range(1_000))


async def test_a_turn_of_a_long_conversation_is_as_many_statements_as_one_of_a_short(opened: Open) -> None:
    counted = await opened(calls=1)
    await counted.run()
    short = counted.count()
    for _ in range(30):
        await counted.run()
    counted.clear()
    await counted.run()
    assert counted.count() == short


async def test_a_turn_of_a_long_conversation_is_as_much_work_for_sqlite_as_one_of_a_short(opened: Open) -> None:
    """A statement that goes through all calls or messages of a conversation is one statement still."""
    counted = await opened(calls=1)
    steps = 0

    def step() -> None:
        nonlocal steps
        steps += 1

    async def work() -> int:
        nonlocal steps
        steps = 0
        await counted.log.read(lambda sql: sql.set_progress_handler(step, 1))
        await counted.run()
        await counted.log.read(lambda sql: sql.set_progress_handler(None, 1))
        return steps

    early = await work()
    for _ in range(40):
        await counted.run()
    assert early / 2 < await work() < 1.15 * early


async def test_a_turn_is_a_few_kilobytes_and_no_more_late_than_early(opened: Open) -> None:
    counted = await opened(calls=1)
    sizes = [await counted.bytes()]
    for _ in range(2):
        for _ in range(30):
            await counted.run()
        sizes.append(await counted.bytes())
    early, late = (sizes[1] - sizes[0]) / 30, (sizes[2] - sizes[1]) / 30
    assert late <= 1.2 * early
    assert late <= 4_200, "900 are two audit entries in plain text, 1,400 the events, compressed by themselves"


async def test_nothing_is_read_of_earlier_turns_while_calls_run(opened: Open) -> None:
    """A step reads its own call, never the history."""
    counted = await opened(calls=5)
    await counted.run()
    history = [
        one for one in counted.sql if one.startswith("SELECT") and " FROM messages " in one and "position >" in one
    ]
    assert len(history) <= 2, "once when the run begins, once for its transcript"
    assert not [one for one in counted.sql if "FROM messages WHERE conversation = 1 ORDER BY" in one]
