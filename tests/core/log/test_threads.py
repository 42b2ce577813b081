"""The event loop leaves the interpreter to the log's thread while a decision is written: counted, not timed."""

import asyncio
import itertools
import threading
from collections.abc import AsyncIterator
from functools import partial

import pytest

from agent_kernel.log import threads
from agent_kernel.log.threads import MOST_YIELDS, After, LogThread


@pytest.fixture
async def thread() -> AsyncIterator[LogThread]:
    thread = LogThread(asyncio.get_running_loop())
    yield thread
    thread.end()


class Clock:
    """In place of `time`: each look at it is a second later, so every turn is long. Counts the sleeps."""

    def __init__(self) -> None:
        self.sleeps = 0
        self._seconds = itertools.count()

    def sleep(self, seconds: float) -> None:
        assert seconds == threads.YIELD_SECONDS
        self.sleeps += 1

    def perf_counter(self) -> float:
        return float(next(self._seconds))


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(threads, "time", clock)
    return clock


def wait(event: threading.Event) -> list[After]:
    """A job that is done when the event is set."""
    event.wait()
    return []


async def turns(number: int) -> None:
    for _ in range(number):
        await asyncio.sleep(0)


async def test_a_busy_loop_yields_while_a_decision_is_written_and_not_forever(thread: LogThread, clock: Clock) -> None:
    written = threading.Event()
    thread.post(partial(wait, written), urgent=True)
    await turns(4)
    assert clock.sleeps == 3
    await turns(MOST_YIELDS * 2)
    assert clock.sleeps == MOST_YIELDS
    written.set()
    await thread.run(lambda: None)
    await turns(3)
    assert clock.sleeps == MOST_YIELDS


async def test_it_ends_with_the_decision_and_begins_with_the_next(thread: LogThread, clock: Clock) -> None:
    for _ in range(2):
        before = clock.sleeps
        written = threading.Event()
        thread.post(partial(wait, written), urgent=True)
        await turns(3)
        assert clock.sleeps == before + 2
        written.set()
        await thread.run(lambda: None)
        after = clock.sleeps
        await turns(5)
        assert clock.sleeps == after


async def test_it_does_not_yield_to_other_work_nor_while_it_rests(
    thread: LogThread, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = threading.Event()
    thread.post(partial(wait, done))
    await turns(3)
    assert clock.sleeps == 0
    monkeypatch.setattr(threads, "BUSY_SECONDS", 10.0)
    thread.post(list, urgent=True)
    await turns(3)
    done.set()
    assert clock.sleeps == 0
