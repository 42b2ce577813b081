"""What is over is let go of: a run is not held by what its steps opened. The log's thread holds what it has written for
a moment after a test hears of it, until it has something else to do."""

import asyncio
import gc
from contextvars import ContextVar, copy_context
from weakref import finalize, ref

from agent_kernel.log.events import Frame
from agent_kernel.log.store import Log
from agent_kernel.models.base import ModelRequest, ModelTurn
from agent_kernel.protocol.runs import RunResult
from agent_kernel.protocol.views import MessageView, ToolCallView
from agent_kernel.runtime.state.history import Histories, Past
from agent_kernel.runtime.state.run import ActiveRun
from agent_kernel.runtime.tasks import TaskOwner
from agent_kernel.testing import ScriptedModel, call, say
from tests.core.runtime.runtime_fixtures import FunctionExecutor, stage

REQUEST: ContextVar[object] = ContextVar("REQUEST")


def looking() -> ScriptedModel:
    """Looks once in each run."""
    return ScriptedModel([call("look"), say("Done.")], repeat=True)


def alive(*kinds: type) -> int:
    gc.collect()
    # By type: to be asked for its class makes a lazy object of another package load all that it stands for.
    return sum(issubclass(type(one), kinds) for one in gc.get_objects())


async def test_a_connection_that_outlives_a_run_does_not_hold_it() -> None:
    kept: list[object] = []

    def asked(request: ModelRequest) -> ModelTurn:
        kept.append(copy_context())  # as a socket's callbacks keep what was current when it connected
        return say("Done.") if len(kept) == 3 else call("look")

    def connect(call: object, emit: object) -> str:
        kept.append(copy_context())
        return "seen"

    one = await stage(ScriptedModel([asked], repeat=True), executor=FunctionExecutor(connect))
    before = alive(ActiveRun)
    await (await one.start()).wait()
    assert len(kept) == 3, "two turns and a call"
    await one.log.read(lambda _: None)
    assert alive(ActiveRun) == before
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


async def test_the_transcript_of_a_run_that_is_over_is_in_the_log_only() -> None:
    one = await stage(looking())
    before = alive(RunResult, MessageView, ToolCallView)
    await (await one.start()).wait()
    one.events.clear()
    await asyncio.sleep(0)
    await one.log.read(lambda _: None)
    assert alive(RunResult, MessageView, ToolCallView) == before
    await one.close()


async def test_events_are_kept_in_memory_for_clients_that_are_there() -> None:
    one = await stage(looking())
    before = alive(Frame)
    await (await one.start()).wait()
    assert alive(Frame) > before
    await one.leave()
    await one.log.read(lambda _: None)
    assert alive(Frame) == before
    await (await one.start()).wait()
    await one.log.read(lambda _: None)
    assert alive(Frame) == before
    await one.runtime.aclose()


async def test_what_was_written_last_is_not_held_by_the_thread_that_wrote_it() -> None:
    class Body:
        pass

    log = await Log.open(None)
    for ask in (log.write, log.read):
        body = Body()
        gone = asyncio.Event()
        finalize(body, asyncio.get_running_loop().call_soon_threadsafe, gone.set)
        await ask(lambda _, body=body: None)
        del body
        async with asyncio.timeout(5):
            await gone.wait()
    await log.aclose()


def test_long_histories_are_kept_for_fewer_conversations() -> None:
    histories = Histories()
    for conversation in range(40):
        histories.keep(conversation, Past([{"role": "user"}] * 9_000))
    kept = {number: past for number in range(40) if (past := histories.take(number)).messages}
    assert list(kept) == [38, 39]
    for number, past in kept.items():
        histories.keep(number, past)
    histories.keep(40, Past([{"role": "user"}] * 90_000))
    assert [number for number in range(41) if histories.take(number).messages] == [40]


async def test_what_a_run_is_started_with_is_no_more_once_the_conversation_is_deleted() -> None:
    one = await stage(looking())
    await (await one.start()).wait()
    conversation = ref(one.conversation)
    await one.runtime.delete_conversation(one.conversation.conversation_id)
    del one.conversation
    await one.leave()
    await one.log.read(lambda _: None)
    gc.collect()
    assert conversation() is None
    await one.runtime.aclose()
