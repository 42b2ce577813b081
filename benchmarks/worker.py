"""Runs one contender in a process: `python -m benchmarks.worker CONTENDER BASE_URL DIRECTORY`.

Commands are lines of JSON on the standard input, answers lines of JSON on the standard output. It runs in the peer's
environment too, so it imports nothing but the standard library and the one contender.
"""

import asyncio
import gc
import json
import random
import sys
import time
import traceback
from collections.abc import Awaitable, Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.contenders.base import ENTERED, ENTERED_BY, Contender

CONTENDERS: dict[str, tuple[str, str]] = {
    "ours": ("ours", "AgentKernel"),
    "raw aiohttp": ("raw", "Raw"),
    "create_agent": ("create_agent", "CreateAgent"),
}
"""The module and class of each contender."""
PEER = "create_agent"
Result = dict[str, Any]


async def answer(contender: Contender, model: str) -> Result:
    gc.collect()
    wall, cpu = time.perf_counter(), time.process_time()
    characters = await contender.answer(model)
    return {"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu, "characters": characters}


async def steps(contender: Contender, model: str) -> Result:
    ENTERED.clear()
    gc.collect()
    wall, cpu = time.perf_counter(), time.process_time()
    await contender.steps(model)
    return {"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu, "calls": len(ENTERED)}


async def approvals(contender: Contender, count: int, lengths: list[int]) -> Result:
    """Milliseconds from a decision to the tool's first line, by the length of the conversation in messages. The lengths
    take turns, so that nothing else differs."""
    entered: dict[str, list[float]] = {str(messages): [] for messages in lengths}
    for number in range(count):
        for messages in lengths if number % 2 else reversed(lengths):
            name = f"approval {messages} {time.perf_counter_ns()} {number}"
            await contender.pause(name, "steps:1", messages)
            ENTERED.clear()
            begun = time.perf_counter_ns()
            await contender.approve(name)
            entered[str(messages)].append((ENTERED[0] - begun) / 1e6)
    return {"entered": entered}


async def turns(contender: Contender, first: int, last: int) -> Result:
    """Milliseconds of each turn from `first` to `last`, and the bytes on disk after them."""
    gc.collect()
    took = []
    for _ in range(first, last + 1):
        begun = time.perf_counter()
        await contender.turn("long", "turn")
        took.append((time.perf_counter() - begun) * 1e3)
    return {"ms": took, "bytes": contender.bytes_on_disk()}


async def crowd(contender: Contender, runs: int, prompts: int, model: str, think: float) -> Result:
    """That many people at once, each with some prompts, one after another in new conversations. A person approves the
    call after up to `think` seconds. The milliseconds from each decision to the tool."""
    asked: dict[int, int] = {}
    chance = random.Random(runs)

    async def person(number: int) -> None:
        await asyncio.sleep(think * chance.random())
        for prompt in range(prompts):
            mark = number * prompts + prompt
            name = f"crowd {time.perf_counter_ns()} {mark}"
            await contender.pause(name, model, 0, f"mark {mark}")
            await asyncio.sleep(think * chance.random())
            asked[mark] = time.perf_counter_ns()
            await contender.approve(name)

    ENTERED_BY.clear()
    gc.collect()
    await asyncio.gather(*map(person, range(runs)))
    return {"entered": [(ENTERED_BY[mark] - begun) / 1e6 for mark, begun in asked.items()]}


ACTIONS: dict[str, Callable[..., Awaitable[Result]]] = {
    "answer": answer,
    "steps": steps,
    "approvals": approvals,
    "turns": turns,
    "crowd": crowd,
}


async def work(name: str, base_url: str, directory: Path) -> None:
    module, kind = CONTENDERS[name]
    contender: Contender = getattr(import_module(f"benchmarks.contenders.{module}"), kind)(base_url, directory)
    await contender.open()
    _say({"ready": True})
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        command = json.loads(line)
        try:
            _say(await ACTIONS[command.pop("do")](contender, **command))
        except Exception:  # noqa: BLE001 (whatever a peer raises is the scenario's to report)
            _say({"error": traceback.format_exc()})
    await contender.close()


def _say(result: Result) -> None:
    sys.stdout.write(json.dumps(result) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(work(sys.argv[1], sys.argv[2], Path(sys.argv[3])))
