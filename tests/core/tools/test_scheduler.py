"""Which calls run together, and in what order."""

import asyncio

from agent_kernel.tools.scheduler import CallScheduler


class Calls:
    """Calls that hold their turn until they are told to end."""

    def __init__(self) -> None:
        self.scheduler = CallScheduler()
        self.running: list[str] = []
        self.tasks: dict[str, asyncio.Task[None]] = {}
        self._ends: dict[str, asyncio.Event] = {}

    async def start(self, name: str, *, read_only: bool = False) -> None:
        self._ends[name] = asyncio.Event()
        self.tasks[name] = asyncio.create_task(self._run(name, read_only))
        await self.settle()

    async def end(self, name: str) -> None:
        self._ends[name].set()
        await self.tasks[name]
        await self.settle()

    async def cancel(self, *names: str) -> None:
        for name in names:
            self.tasks[name].cancel()
        await asyncio.gather(*(self.tasks[name] for name in names), return_exceptions=True)
        await self.settle()

    async def settle(self) -> None:
        for _ in range(5):
            await asyncio.sleep(0)

    async def _run(self, name: str, read_only: bool) -> None:
        async with self.scheduler.slot(read_only):
            self.running.append(name)
            try:
                await self._ends[name].wait()
            finally:
                self.running.remove(name)


async def test_calls_run_one_at_a_time_in_order_of_approval() -> None:
    calls = Calls()
    for name in "abc":
        await calls.start(name)
    for name in "abc":
        assert calls.running == [name]
        await calls.end(name)
    assert calls.running == []


async def test_read_only_calls_run_together_but_at_most_ten() -> None:
    calls = Calls()
    names = [f"r{number}" for number in range(12)]
    for name in names:
        await calls.start(name, read_only=True)
    assert calls.running == names[:10]
    await calls.end("r0")
    assert calls.running == names[1:11]
    await calls.cancel(*names[1:])


async def test_a_call_that_changes_things_waits_for_readers_and_holds_back_later_ones() -> None:
    calls = Calls()
    await calls.start("r1", read_only=True)
    await calls.start("w")
    await calls.start("r2", read_only=True)
    assert calls.running == ["r1"]
    await calls.end("r1")
    assert calls.running == ["w"]
    await calls.end("w")
    assert calls.running == ["r2"]
    await calls.end("r2")


async def test_a_cancelled_call_leaves_the_queue_and_gives_up_its_turn() -> None:
    calls = Calls()
    for name in "abcd":
        await calls.start(name)
    await calls.cancel("b")
    assert calls.running == ["a"]
    await calls.cancel("a")
    assert calls.running == ["c"]
    await calls.end("c")
    assert calls.running == ["d"]
    await calls.end("d")


async def test_a_call_cancelled_just_as_its_turn_comes_passes_it_on() -> None:
    calls = Calls()
    for name in "abc":
        await calls.start(name)
    calls.tasks["a"].cancel()
    # The turn goes to b within the next pass of the loop; b is cancelled before it can use it.
    await asyncio.sleep(0)
    await calls.cancel("b")
    assert calls.running == ["c"]
    await calls.end("c")


async def test_many_calls_cancelled_at_once_leave_the_queue_usable() -> None:
    calls = Calls()
    names = [f"c{number}" for number in range(20)]
    for number, name in enumerate(names):
        await calls.start(name, read_only=number % 3 == 0)
    await calls.cancel(*names)
    await calls.start("last")
    assert calls.running == ["last"]
    await calls.end("last")
