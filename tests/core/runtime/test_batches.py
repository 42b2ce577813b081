"""Small writes are joined by interval, in order, and none is lost."""

import asyncio

import pytest

from agent_kernel.runtime.batches import Batcher

SECONDS = 0.02


class Written:
    """What was written, batch by batch, and when each began by the event loop's clock."""

    def __init__(self, fault: Exception | None = None) -> None:
        self.batches: list[list[int]] = []
        self.times: list[float] = []
        self.fault = fault
        """What the first write raises."""
        self._ended = asyncio.Event()

    async def write(self, items: list[int]) -> None:
        self.times.append(asyncio.get_running_loop().time())
        await asyncio.sleep(0)
        if self.fault is not None:
            fault, self.fault = self.fault, None
            raise fault
        self.batches.append(items)
        self._ended.set()

    async def next(self) -> None:
        """Return when the next batch has been written."""
        self._ended.clear()
        await asyncio.wait_for(self._ended.wait(), 10)


async def turns(number: int) -> None:
    """Turns of the event loop, in each of which a timer that is due is called."""
    for _ in range(number):
        await asyncio.sleep(0)


async def test_items_are_written_in_order_and_once_an_interval() -> None:
    written = Written()
    batcher = Batcher(written.write, SECONDS)
    added = 0
    while len(written.batches) < 4:
        batcher.add(added)
        added += 1
        await asyncio.sleep(0)
    rest = await batcher.drain()
    assert [item for batch in written.batches for item in batch] + rest == list(range(added))
    gaps = [later - earlier for earlier, later in zip(written.times, written.times[1:], strict=False)]
    assert len(gaps) == 3
    assert all(gap >= SECONDS for gap in gaps), gaps


async def test_an_item_that_comes_after_a_write_waits_for_the_interval() -> None:
    written = Written()
    batcher = Batcher(written.write, SECONDS)
    for number in (1, 2):
        batcher.add(number)
        await written.next()
    assert written.batches == [[1], [2]]
    assert written.times[1] - written.times[0] >= SECONDS
    assert await batcher.drain() == []


async def test_what_is_drained_is_not_written() -> None:
    written = Written()
    batcher = Batcher(written.write, 0)
    batcher.add(1)
    assert await batcher.drain() == [1]
    batcher.add(2)
    await turns(10)
    assert written.batches == []
    await batcher.aclose()
    assert written.batches == [[1, 2]]


async def test_a_failed_write_is_raised_at_the_end_and_nothing_is_written_after_it() -> None:
    written = Written(OSError("The disk is full."))
    batcher = Batcher(written.write, 0)
    batcher.add(1)
    await turns(10)
    assert len(written.times) == 1
    batcher.add(2)
    await turns(10)
    assert written.batches == []
    with pytest.raises(OSError, match="full"):
        await batcher.drain()
