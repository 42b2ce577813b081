"""A prompt that is run in memory before anybody asks: the first real one then finds everything imported, built and
compiled. It takes the way of every prompt, so that no list of what to prepare can be outdated."""

import asyncio
from collections.abc import AsyncIterator

from agent_kernel.models.base import Model, ModelFacts, ModelItem, ModelRequest, ModelTurn, TextDelta, TokenUsage
from agent_kernel.protocol.ids import new_run_id
from agent_kernel.runtime.runtime import Runtime
from agent_kernel.runtime.settings import RunSpec, RuntimeSettings
from agent_kernel.tools.builtin.declarations import BUILTIN_TOOLS

ANSWER = "Ready."


class _Model:
    """Gives one answer to everything. It asks nobody and costs nothing."""

    name = "rehearsal"
    recorded = True
    facts = ModelFacts()

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelItem]:  # noqa: ARG002 -- the answer is fixed
        yield TextDelta(ANSWER)
        yield ModelTurn(content=ANSWER, usage=TokenUsage())

    async def aclose(self) -> None:
        """Nothing is open."""

    def resolve(self, name: str | None, notebook_path: str | None = None) -> Model:  # noqa: ARG002 -- as above
        return self

    def secrets(self) -> tuple[str, ...]:
        return ()


def rehearse() -> None:
    """Takes a second: call it in a thread that has no event loop."""
    asyncio.run(_rehearse())


async def _rehearse() -> None:
    runtime = await Runtime.open(None, _Model(), RuntimeSettings())
    try:
        conversation = await runtime.create_conversation()
        frames = conversation.subscribe()
        spec = RunSpec(run_id=new_run_id(), prompt="Are you ready?", tools=BUILTIN_TOOLS)
        handle = await conversation.start_run(spec, None)
        async for frame in frames:
            if '"complete"' in frame:
                break
        frames.close()
        await handle.wait()
        await conversation.snapshot()
    finally:
        await runtime.aclose()
