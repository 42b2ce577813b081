"""What a conversation that waits for a person keeps in memory: there may be thousands of them, for days. And what the
garbage collector looks at, which holds up all of them."""

import asyncio
import gc
import sys
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agent_kernel.garbage import THRESHOLDS, settle
from agent_kernel.protocol.ids import new_run_id
from agent_kernel.runtime.conversation import Conversation
from agent_kernel.runtime.runs.queue import RunHandle
from agent_kernel.runtime.runtime import Runtime
from agent_kernel.runtime.settings import RunSpec, RuntimeSettings
from agent_kernel.tools.declaration import ToolDeclaration
from tests.core.runtime.runtime_fixtures import FunctionExecutor
from tests.counts.counting import CountedModel

PROBE = ToolDeclaration("probe", "Probe.", {"type": "object", "properties": {}}, approval="ask")
HISTORIES = 32
"""So many conversations keep their history in memory, however many wait: they are not counted."""


async def test_a_paused_conversation_is_a_few_kilobytes(tmp_path: Path) -> None:
    settings = RuntimeSettings(suspend_seconds=0.01, runs_in_memory=0)
    runtime = await Runtime.open(tmp_path / "log.sqlite", CountedModel(calls=1), settings)
    kept: list[tuple[Conversation, RunHandle]] = []

    async def pause(count: int) -> None:
        for _ in range(count):
            conversation = await runtime.create_conversation()
            spec = RunSpec(run_id=new_run_id(), prompt="Go on.", tools=(PROBE,))
            kept.append((conversation, await conversation.start_run(spec, FunctionExecutor())))
        async with asyncio.timeout(30):
            while (await runtime.counts())["awaiting_approval"] < len(kept) or any(one.in_memory for one, _ in kept):  # noqa: ASYNC110
                await asyncio.sleep(0.01)  # suspending makes no sound

    await pause(HISTORIES + 1)
    gc.collect()
    tracemalloc.start()
    try:
        await pause(100)
        gc.collect()
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    await runtime.aclose()
    assert held / 100 < 4.5 * 1024


@pytest.fixture
def settled() -> Iterator[None]:
    before = gc.get_threshold()
    gc.collect()
    settle()
    yield
    gc.set_threshold(*before)
    gc.unfreeze()


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="there is no middle generation")
@pytest.mark.usefixtures("settled")
def test_the_collector_looks_at_few_objects_in_each_of_its_frequent_passes() -> None:
    passes: dict[int, list[int]] = {0: [], 1: [], 2: []}

    def note(phase: str, info: dict[str, Any]) -> None:
        if phase == "start":
            generation = info["generation"]
            passes[generation].append(sum(len(gc.get_objects(younger)) for younger in range(generation + 1)))

    gc.callbacks.append(note)
    try:
        kept: list[list[int]] = [[number] for number in range(40_000)]
    finally:
        gc.callbacks.remove(note)
    new, every, _ = THRESHOLDS
    assert len(passes[1]) >= len(kept) // (new * (every + 2)) - 1
    assert max(passes[0] + passes[1]) <= 1.1 * new * (every + 2)  # with Python's own numbers it is three times as many
    assert len(passes[2]) <= 1
