"""Imported once by the process that runtime processes are forked from, so that a new life costs milliseconds.

It plays one run in memory, which imports and builds all that a run needs; its threads have ended before the first fork.
"""

import asyncio

from agent_kernel.models.resolver import ModelResolver
from agent_kernel.runtime.runtime import Runtime
from agent_kernel.runtime.settings import RunSpec
from agent_kernel.testing import FakeOpenAI, call, say
from tests.faults.life import APPEND


async def _rehearse() -> None:
    with FakeOpenAI([call("append", mark="1"), say("Done.")]) as server:
        models = ModelResolver(environ=server.environment())
        runtime = await Runtime.open(None, models, attended=False)
        conversation = await runtime.create_conversation()
        handle = await conversation.start_run(RunSpec(run_id="rehearsal", prompt="Go", tools=(APPEND,)), None)
        await handle.wait()
        await runtime.aclose()
        await models.aclose()


asyncio.run(_rehearse())
