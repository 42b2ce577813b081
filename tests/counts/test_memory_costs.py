"""What a conversation that waits for a person keeps in memory: there may be thousands of them, for days."""

import asyncio
import gc
import tracemalloc
from pathlib import Path

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
