"""Small writes are joined by interval, in order, and none is lost."""

import asyncio

import pytest

from agent_kernel.runtime.batches import Batcher

SECONDS = 0.02


class Written:
    """What was written, batch by batch, and when by the event loop's clock."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.times: list[float] = []
        self.done = asyncio.Event()
        self.fault: Exception | None = None

    async def write(self, items: list[int]) -> None:
        self.times.append(asyncio.get_running_loop().time())
        self.done.set()
        await asyncio.sleep(0)
        if self.fault is not None:
            raise self.fault
        self.batches.append(items)

    async def next(self) -> None:
        self.done.clear()
        await self.done.wait()
        await asyncio.sleep(0.001)


async def test_items_are_written_in_order_and_once_an_interval() -> None:
    written = Written()
    batcher = Batcher(written.write, SECONDS)
    for number in range(200):
        batcher.add(number)
        await asyncio.sleep(0.001 if number % 20 == 0 else 0)
    rest = await batcher.drain()
    assert [item for batch in written.batches for item in batch] + rest == list(range(200))
    gaps = [later - earlier for earlier, later in zip(written.times, written.times[1:], strict=False)]
    assert all(gap >= SECONDS for gap in gaps), gaps


async def test_an_item_after_a_short_pause_waits_for_the_interval() -> None:
    written = Written()
    batcher = Batcher(written.write, SECONDS)
    batcher.add(1)
    await written.next()
    batcher.add(2)
    await written.next()
    assert written.batches == [[1], [2]]
    assert written.times[1] - written.times[0] >= SECONDS
    assert await batcher.drain() == []


async def test_what_is_drained_is_not_written() -> None:
    written = Written()
    batcher = Batcher(written.write, SECONDS)
    batcher.add(1)
    assert await batcher.drain() == [1]
    batcher.add(2)
    await asyncio.sleep(2 * SECONDS)
    assert written.batches == []
    await batcher.aclose()
    assert written.batches == [[1, 2]]


async def test_a_failed_write_is_raised_at_the_end_and_nothing_is_written_after_it() -> None:
    written = Written()
    batcher = Batcher(written.write, SECONDS)
    written.fault = OSError("The disk is full.")
    batcher.add(1)
    await written.next()
    written.fault = None
    batcher.add(2)
    await asyncio.sleep(2 * SECONDS)
    assert written.batches == []
    with pytest.raises(OSError, match="full"):
        await batcher.drain()
