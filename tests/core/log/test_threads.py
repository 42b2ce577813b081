"""The event loop leaves the interpreter to the log's thread while a decision is written: counted, not timed."""

import asyncio
import threading
from collections.abc import AsyncIterator
from functools import partial

import pytest

from agent_kernel.log import threads
from agent_kernel.log.threads import MOST_GIVEN, After, LogThread


@pytest.fixture
async def thread() -> AsyncIterator[LogThread]:
    thread = LogThread(asyncio.get_running_loop())
    yield thread
    thread.end()


class GivenTimes:
    """Counts how often the loop has given the interpreter."""

    def __init__(self) -> None:
        self.number = 0

    def sleep(self, seconds: float) -> None:
        assert seconds == threads.GIVEN_SECONDS
        self.number += 1

    def perf_counter(self) -> float:
        """A clock by which each turn takes a second."""
        return 1.0 * next(self._turns)

    _turns = iter(range(10**9))


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> GivenTimes:
    times = GivenTimes()
    monkeypatch.setattr(threads, "time", times)
    return times


def wait(event: threading.Event) -> list[After]:
    """A job that is done when the event is set."""
    event.wait()
    return []


async def turns(number: int) -> None:
    for _ in range(number):
        await asyncio.sleep(0)


async def test_a_busy_loop_gives_way_while_a_decision_is_written_and_not_forever(
    thread: LogThread, given: GivenTimes
) -> None:
    written = threading.Event()
    thread.post(partial(wait, written), urgent=True)
    await turns(4)
    assert given.number == 3
    await turns(MOST_GIVEN * 2)
    assert given.number == MOST_GIVEN
    written.set()
    await thread.run(lambda: None)
    await turns(3)
    assert given.number == MOST_GIVEN


async def test_it_ends_with_the_decision_and_begins_with_the_next(thread: LogThread, given: GivenTimes) -> None:
    for _ in range(2):
        before = given.number
        written = threading.Event()
        thread.post(partial(wait, written), urgent=True)
        await turns(3)
        assert given.number == before + 2
        written.set()
        await thread.run(lambda: None)
        after = given.number
        await turns(5)
        assert given.number == after


async def test_other_work_and_a_loop_that_rests_get_nothing(
    thread: LogThread, given: GivenTimes, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = threading.Event()
    thread.post(partial(wait, done))
    await turns(3)
    assert given.number == 0
    monkeypatch.setattr(threads, "BUSY_SECONDS", 10.0)
    thread.post(list, urgent=True)
    await turns(3)
    done.set()
    assert given.number == 0
