"""Answers that come faster than they are read leave the event loop to decisions: counted in turns, not in seconds."""

import asyncio
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest

from agent_kernel.models.api import AnswerReader, Target
from agent_kernel.models.base import ModelItem
from agent_kernel.models.chat import ChatApi, ChatReader
from agent_kernel.models.client import Connection, SharedClient
from agent_kernel.models.http import QUICK_PIECES, QUICK_SECONDS, SMALL_BYTES, HttpModel
from agent_kernel.models.loop_turns import MOST_PAUSE_SECONDS, PIECE_BYTES, LoopTurns, loop_turns, pieces
from agent_kernel.testing import FakeOpenAI, say
from agent_kernel.testing.fake_openai import FAKE_KEY
from agent_kernel.testing.wire.chat import streamed
from agent_kernel.testing.wire.reply import Reply
from tests.core.models.model_apis import CHAT
from tests.core.models.model_fixtures import connected, counted_reads, turn_of

TEXT = "many words " * 20_000


class TurnCounter:
    """Numbers the turns of the event loop."""

    def __init__(self) -> None:
        self.number = 0
        self._loop = asyncio.get_running_loop()
        self._next: asyncio.Handle | None = None

    @contextmanager
    def counting(self) -> Iterator[None]:
        self._count()
        try:
            yield
        finally:
            if self._next is not None:
                self._next.cancel()

    def _count(self) -> None:
        self.number += 1
        self._next = self._loop.call_soon(self._count)


class WatchedApi(ChatApi):
    """Notes how many bytes are read in each turn of the event loop."""

    def __init__(self, turns: TurnCounter, read: Counter[int]) -> None:
        super().__init__()
        self._turns, self._read = turns, read

    def reader(self, target: Target) -> AnswerReader:
        turns, read = self._turns, self._read

        class Reader(ChatReader):
            def feed(self, chunk: bytes) -> list[ModelItem]:
                read[turns.number] += len(chunk)
                return super().feed(chunk)

        return Reader(target.origin)


async def test_answers_that_come_all_at_once_are_read_a_piece_in_each_turn_of_the_loop() -> None:
    said = streamed(say(TEXT))
    at_once = Reply(body=said.body, split_every=len(said.body))
    turns, read = TurnCounter(), Counter[int]()
    with FakeOpenAI([at_once] * 3) as server, turns.counting():
        clients = [SharedClient(Connection(base_url=server.url, key=lambda: FAKE_KEY)) for _ in range(3)]
        models = [HttpModel("fake", client, api=WatchedApi(turns, read)) for client in clients]
        told = await asyncio.gather(*map(turn_of, models))
        for model in models:
            await model.aclose()
    assert [turn.content for turn in told] == [TEXT] * 3
    assert sum(read.values()) == 3 * len(said.body)
    assert max(read.values()) <= PIECE_BYTES + 3 * SMALL_BYTES  # small pieces, such as a chunk's end, do not queue


async def test_who_was_cancelled_while_waiting_holds_up_nobody() -> None:
    turns = LoopTurns()
    await turns.take()
    waiting = [asyncio.create_task(turns.take()) for _ in range(4)]
    await asyncio.sleep(0)
    waiting[1].cancel()
    waiting[2].cancel()
    async with asyncio.timeout(5):
        ended = await asyncio.gather(*waiting, return_exceptions=True)
        await turns.take()
    assert [isinstance(one, asyncio.CancelledError) for one in ended] == [False, True, True, False]


async def test_each_turn_of_the_loop_is_for_one_reader() -> None:
    turns, entered = TurnCounter(), Counter[int]()

    async def read() -> None:
        for _ in range(5):
            await loop_turns().take()
            entered[turns.number] += 1

    with turns.counting():
        await asyncio.gather(*(read() for _ in range(4)))
    assert set(entered.values()) == {1}


async def test_many_answers_at_once_are_each_read_less_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """A wake-up for each token of a hundred answers is most of what they cost. One answer alone is not delayed."""
    reads = counted_reads(monkeypatch)
    monkeypatch.setattr("agent_kernel.models.loop_turns.PAUSE_SECONDS", MOST_PAUSE_SECONDS / 10)
    monkeypatch.setattr("agent_kernel.models.http.SMALL_BYTES", 1_000_000)  # what comes while the loop stands still
    numbers = [f"{number} " for number in range(60)]
    said = Reply(body=CHAT.saying(*numbers), pause=0.01)
    async with connected(*[said] * 10) as (_, model):
        began = time.monotonic()
        told = await asyncio.gather(*(turn_of(model) for _ in range(10)))
        pauses = (time.monotonic() - began) / MOST_PAUSE_SECONDS
    assert [turn.content for turn in told] == ["".join(numbers)] * 10
    assert len(reads) <= 10 * (QUICK_PIECES + pauses + 3)
    assert loop_turns().pause == 0


def test_one_answer_alone_pauses_for_no_others() -> None:
    turns = LoopTurns()
    with turns.reading():
        assert turns.pause < QUICK_SECONDS
    with suppress(KeyError), turns.reading(), turns.reading():
        raise KeyError
    assert turns.pause == 0


def test_pieces_are_the_whole_chunk() -> None:
    chunk = bytes(range(256)) * 200
    assert b"".join(pieces(chunk)) == chunk
    assert max(map(len, pieces(chunk))) == PIECE_BYTES
    assert list(pieces(b"short")) == [b"short"]
