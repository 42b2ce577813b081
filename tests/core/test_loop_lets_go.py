"""What is over is let go of: a run is not held by what its steps opened."""

import asyncio
import gc
from collections.abc import AsyncIterator
from contextvars import ContextVar, copy_context
from weakref import ref

from agent_kernel.loop.run import ActiveRun
from agent_kernel.loop.tasks import TaskOwner
from agent_kernel.models.base import ModelItem, ModelRequest, ModelTurn, RequestedCall
from tests.core.brain_fixtures import FunctionHands, stage

REQUEST: ContextVar[object] = ContextVar("REQUEST")


class Connecting:
    """A model that keeps what was current when it connected, as a socket's callbacks do."""

    name = "connecting"
    recorded = False

    def __init__(self) -> None:
        self.kept: list[object] = []

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelItem]:
        self.kept.append(copy_context())
        if request.messages[-1]["role"] == "tool":
            yield ModelTurn(content="Done.")
        else:
            yield ModelTurn(content="", tool_calls=(RequestedCall("", "look", "{}"),))

    async def aclose(self) -> None:
        """Nothing is open."""


def runs_alive() -> int:
    gc.collect()
    return sum(isinstance(one, ActiveRun) for one in gc.get_objects())


async def test_a_connection_that_outlives_a_run_does_not_hold_it() -> None:
    model = Connecting()

    def connect(call: object, emit: object) -> str:
        model.kept.append(copy_context())
        return "seen"

    one = await stage(model, hands=FunctionHands(connect))
    before = runs_alive()
    await (await one.start()).wait()
    assert len(model.kept) == 3, "two turns and a call"
    assert runs_alive() == before
    await one.close()


async def test_a_task_does_not_hold_the_request_that_started_it() -> None:
    class Request:
        pass

    owner = TaskOwner()
    going = asyncio.Event()

    async def ask() -> "ref[Request]":
        request = Request()
        REQUEST.set(request)
        owner.spawn(going.wait(), "outlives the request")
        return ref(request)

    request = await asyncio.create_task(ask())
    await asyncio.sleep(0)  # the loop lets go of what woke this test
    gc.collect()
    assert request() is None
    going.set()
    await owner.aclose()


async def test_what_a_run_is_started_with_is_no_more_once_the_conversation_is_deleted() -> None:
    one = await stage(Connecting())
    await (await one.start()).wait()
    conversation = ref(one.conversation)
    await one.brain.delete_conversation(one.conversation.conversation_id)
    del one.conversation
    one._subscription.close()
    await one._reader
    del one._subscription
    gc.collect()
    assert conversation() is None
    await one.brain.aclose()
