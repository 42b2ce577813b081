"""Rounds of the page's habits: cells run again, cleared, deleted, a page loaded again, the kernel interrupted.

A real server, and a kernel for each round; what a front end sends is sent, at random moments.
"""

import asyncio
import contextlib
import json
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, assert_never

from tests.faults import checks
from tests.faults.figures import Figures
from tests.faults.page import Asked, Page
from tests.faults.rounds import ServerRound, play_all
from tests.waiting import look_until

Habit = Literal["again", "another", "clear", "delete", "reload", "interrupt", "interrupt own cell", "own cell"]
HABITS: tuple[Habit, ...] = ("again", "another", "clear", "delete", "reload", "interrupt", "interrupt own cell")
INTERRUPTS: tuple[Habit, ...] = ("interrupt", "interrupt", "interrupt own cell", "own cell", "another")
INTERRUPTED = "Stopped, because the kernel was interrupted."
UNSTOPPED = "[run.run_id for run in kernel_state().open_runs() if run.stop_cause is None]"
OWN_CELL = f"""\
import time
from agent_kernel.notebook.kernel.state import kernel_state
print("mine", *{UNSTOPPED}, flush=True)
time.sleep(SECONDS)
"""
OPEN_RUNS = "import agent_kernel; print(sum(not run.done for run in agent_kernel.runs()))"


@dataclass
class PageRound(ServerRound):
    page: Page = field(init=False)
    cell: str = ""
    holds: bool = False
    """Whether a cell waits for its run."""
    prompts: list[Asked] = field(default_factory=list)
    """The cells that asked an agent."""
    client: "asyncio.Task[None] | None" = None

    async def views(self) -> list[Any]:
        """The round's conversations."""
        return [view for view in await super().views() if view["kernel_id"] == self.page.kernel]

    async def runs(self) -> list[Any]:
        return [run for view in await self.views() for run in view["runs"]]

    async def open_runs(self) -> list[str]:
        return [run["run_id"] for run in await self.runs() if run["status"] not in checks.ENDED]


async def ask(round_: PageRound) -> None:
    """Run the cell at hand, with a plan of its own."""
    chance = round_.random
    plan = round_.python_plan([0, 0.05, 0.3, 2], [0, 0.002, 0.05])
    round_.holds = chance.random() < 0.15
    options = [
        *(["--wait"] if round_.holds else []),
        *(["--policy allow"] if chance.random() < 0.5 else []),
    ]
    asked = await round_.page.run(round_.cell, f"%%agent {' '.join(options)}\nGo on: {json.dumps(plan)}")
    round_.prompts.append(asked)


async def look(round_: PageRound) -> None:
    """The cards of the last run are on screen, until they are cleared, or the page goes."""
    with contextlib.suppress(AssertionError):
        run = (await look_until(round_.runs, "a run", 5))[-1]
        async with round_.server.client(run["conversation_id"], 0) as client:
            await client.send(type="shown", run_id=run["run_id"], shown=True)
            while await client.next(60) is not None:
                pass


async def look_away(round_: PageRound) -> None:
    if round_.client is not None:
        round_.client.cancel()
        await asyncio.gather(round_.client, return_exceptions=True)
        round_.client = None


async def follow(round_: PageRound, habit: Habit) -> None:
    page = round_.page
    match habit:
        case "again":
            for _ in range(round_.random.choice([1, 1, 3, 10])):
                await ask(round_)
        case "another":
            round_.cell = uuid.uuid4().hex
            await ask(round_)
        case "clear":
            await look_away(round_)
        case "delete":
            await look_away(round_)
            deleted, round_.cell = round_.cell, uuid.uuid4().hex
            await page.run(round_.cell, "1", [deleted])
        case "reload":
            await look_away(round_)
            await page.reload()
        case "interrupt":
            await interrupt(round_)
        case "interrupt own cell":
            await own_cell(round_, interrupted=True)
        case "own cell":
            await own_cell(round_, interrupted=False)
        case _:
            assert_never(habit)


async def interrupt(round_: PageRound) -> None:
    """No cell of the user's own runs: a run that is open ends, unless it does by itself. A cell that is just starting
    a run has the interrupt for itself."""
    round_.figures.kills += 1
    was_open, had_ended = await round_.open_runs(), await interrupted_runs(round_)
    starting = [asked for asked in round_.prompts if not asked.ended.is_set()]
    await round_.page.interrupt()
    if not was_open:
        return

    async def it_has_ended_one() -> bool:
        return (
            not set(was_open) <= set(await round_.open_runs())
            or not await interrupted_runs(round_) <= had_ended
            or any(asked.error == "KeyboardInterrupt" for asked in starting)
        )

    try:
        await look_until(it_has_ended_one, "an open run to end", 60)
    except AssertionError:
        round_.fault("interrupts_astray", f"an interrupt has ended none of {was_open}")


async def own_cell(round_: PageRound, *, interrupted: bool) -> None:
    """A cell of the user's own: it is interrupted where that is asked for, and the runs go on; else it is let be."""
    if round_.holds:
        return  # it would wait behind that cell
    seconds = "120" if interrupted else "0.2"
    asked = await round_.page.run(uuid.uuid4().hex, OWN_CELL.replace("SECONDS", seconds))
    await round_.page.until_printed(asked, "\n")
    if asked.status == "aborted":
        return  # behind an interrupted cell
    if not interrupted:
        async with asyncio.timeout(60):
            await asked.ended.wait()
        if asked.status != "ok":
            round_.fault("interrupts_astray", f"a cell of the user's own was cut off: {asked.error}")
        return
    round_.figures.kills += 1
    await round_.page.interrupt()
    try:
        async with asyncio.timeout(60):
            await asked.ended.wait()
    except TimeoutError:
        round_.fault("interrupts_astray", "a cell of the user's own was not interrupted")
        await asked.ended.wait()
    if asked.error != "KeyboardInterrupt":
        round_.fault("interrupts_astray", f"a cell of the user's own ended {asked.status} {asked.error}")
    if stopped := await interrupted_runs(round_) & set(asked.printed.split()):
        round_.fault("interrupts_astray", f"an interrupt of the user's own cell has stopped {stopped}")


async def interrupted_runs(round_: PageRound) -> set[str]:
    return {run["run_id"] for run in await round_.runs() if INTERRUPTED in [n["content"] for n in run["notices"]]}


async def play(habits: Sequence[Habit], round_: PageRound) -> None:
    round_.page, round_.cell = Page(round_.server, await round_.server.start_kernel()), uuid.uuid4().hex
    await round_.page.open()
    await round_.page.prints("%load_ext agent_kernel")
    await ask(round_)
    deciding = asyncio.create_task(round_.person())
    try:
        for _ in range(round_.random.randint(1, 4)):
            if round_.client is None and round_.random.random() < 0.7:
                round_.client = asyncio.create_task(look(round_))
            await asyncio.sleep(round_.random.choice([0, 0.005, 0.05, 0.2, 0.6]) * round_.random.random())
            habit = round_.random.choice(habits)
            round_.name += f", {habit}"
            await follow(round_, habit)
    finally:
        deciding.cancel()
        await asyncio.gather(deciding, return_exceptions=True)
        await look_away(round_)
    async with asyncio.timeout(90):
        await finish(round_)
    await round_.page.close()
    await round_.server.ask("DELETE", f"api/kernels/{round_.page.kernel}")


async def finish(round_: PageRound) -> None:
    """All that is open comes to an end, at the server and in the kernel, and the figures are taken."""
    last = await round_.page.run(uuid.uuid4().hex, "1")

    async def nothing_is_open() -> bool:
        for view in await round_.views():
            await round_.decide(view, approved=True)
            await round_.continue_unknown(view)
        if not last.ended.is_set() or await round_.open_runs():
            return False
        # A run that has just been announced is known to the kernel only.
        return (await round_.page.prints(OPEN_RUNS)).strip() == "0"

    await look_until(nothing_is_open, "the runs to end")
    views = await round_.views()
    round_.check_calls(call for view in views for call in view["tool_calls"])
    for view in views:
        round_.check_frames(await sent(round_, view))


async def sent(round_: PageRound, view: Any) -> list[dict[str, Any]]:
    """All events of a conversation, as a page gets them that comes now."""
    frames: list[dict[str, Any]] = []
    async with round_.server.client(view["conversation_id"], 0) as client:
        while not frames or frames[-1]["seq"] < view["last_seq"]:
            frame = await client.next()
            assert frame is not None, "the line was cut"
            if frame["type"] not in ("session", "pong") and not (frame["type"] == "error" and frame["run_id"] is None):
                frames.append(frame)
    return frames


def run_habits(rounds: int, seed: int, first: int = 0) -> Figures:
    """Rounds in which people do with their notebooks what people do."""
    return asyncio.run(play_all(rounds, seed, first, PageRound, partial(play, HABITS)))


def run_interrupts(rounds: int, seed: int, first: int = 0) -> Figures:
    """Rounds in which the kernel is interrupted at any moment, with cells of the user's own beside the run."""
    return asyncio.run(play_all(rounds, seed, first, PageRound, partial(play, INTERRUPTS)))
