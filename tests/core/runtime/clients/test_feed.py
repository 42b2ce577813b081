"""What a client receives: every event once, in order, from any point."""

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import orjson
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent_kernel.errors import UnknownConversation
from agent_kernel.log import runs
from agent_kernel.log.store import Log
from agent_kernel.models.base import ModelItem, ModelRequest, ToolCallDelta
from agent_kernel.protocol.events import CompleteEvent, MessageEvent, ReasoningEvent, TokenEvent, ToolStateEvent
from agent_kernel.runtime.clients.feed import Feed
from agent_kernel.runtime.runtime import Runtime
from agent_kernel.runtime.settings import RunSpec
from agent_kernel.testing import ScriptedModel, call, calls, say
from tests.core.runtime.runtime_fixtures import LOOK, OneModel, Stages


async def collect(feed: Feed, after: int, count: int) -> list[int]:
    subscription = feed.subscribe(after)
    seqs: list[int] = []
    async for frame in subscription:
        seqs.append(orjson.loads(frame)["seq"])
        if len(seqs) == count:
            subscription.close()
    return seqs


@given(total=st.integers(1, 1_500), start=st.integers(0, 1_500))
@settings(max_examples=15, suppress_health_check=list(HealthCheck))
def test_resume_from_any_point_gives_exactly_the_events_after_it(total: int, start: int) -> None:
    async def check() -> None:
        log = await Log.open(None)
        row = await log.write(lambda t: runs.add_conversation(t.sql, "conv", None, None, None))
        feed = Feed(log, row.number, "conv", 0)

        def fill(t: Any) -> None:
            for _ in range(total):
                t.append(row.number, "conv", TokenEvent(message_id="m", content="x"))

        await log.write(fill)
        await asyncio.sleep(0)
        after = min(start, total - 1)
        assert await collect(feed, after, total - after) == list(range(after + 1, total + 1))
        feed.close()
        await log.aclose()

    asyncio.run(check())


async def test_what_another_server_wrote_in_between_is_left_out_for_no_client(tmp_path: Path) -> None:
    """Each server publishes its own events only; a client of either gets all of them, in order."""
    here, there = [await Log.open(tmp_path / "log.sqlite") for _ in range(2)]
    row = await here.write(lambda t: runs.add_conversation(t.sql, "conv", None, None, None))
    feed = Feed(here, row.number, "conv", 0)
    reading = asyncio.create_task(collect(feed, 0, 6))

    def add(t: Any) -> None:
        t.append(row.number, "conv", TokenEvent(message_id="m", content="x"))

    for log in (here, there, there, here, there, here):
        await log.write(add)
    async with asyncio.timeout(5):
        assert await reading == [1, 2, 3, 4, 5, 6]
    feed.close()
    await here.aclose()
    await there.aclose()


async def test_a_page_that_asks_while_a_conversation_is_made_sees_its_events(stages: Stages) -> None:
    async def ask(runtime: Any) -> Any:
        while True:
            try:
                return await runtime.conversation("made")
            except UnknownConversation:
                await asyncio.sleep(0)

    with ScriptedModel([say("Hello.")]) as model:
        stage = await stages(model)
        made, asked = await asyncio.gather(
            stage.runtime.create_conversation(conversation_id="made"), ask(stage.runtime)
        )
        assert asked is made
        handle = await made.start_run(RunSpec(run_id="run_1", prompt="Go"), None)
        await handle.wait()
        assert made.last_seq > 0


async def test_tokens_join_to_the_whole_answer_and_events_come_in_the_promised_order(stages: Stages) -> None:
    turn = calls(call("look", call_id="a"), text="Let me look.", reasoning="Hm.")
    with ScriptedModel([turn, say("The answer is 42.")]) as model:
        stage = await stages(model)
        result = await (await stage.start()).wait()
        await stage.until(lambda: stage.events and stage.events[-1].type == "run" and stage.events[-1].run.ended_at)
    seqs = [event.seq for event in stage.events]
    assert seqs == list(range(1, len(seqs) + 1))
    messages = {event.message_id: event.content for event in stage.of(MessageEvent) if event.role == "assistant"}
    for message_id, content in messages.items():
        tokens = [event.content for event in stage.of(TokenEvent) if event.message_id == message_id]
        assert "".join(tokens) == content
    assert "".join(event.content for event in stage.of(ReasoningEvent)) == "Hm."
    kinds = [event.type for event in stage.events if event.type not in ("token", "reasoning")]
    assert kinds == [
        "run",
        "message",
        "message",
        "tool_state",
        "usage",
        "approval_response",
        "tool_start",
        "tool_output",
        "tool_complete",
        "message",
        "complete",
        "run",
    ]
    assert result.text == "The answer is 42."
    assert stage.of(CompleteEvent)[0].message_id == list(messages)[-1]


async def test_a_card_appears_while_the_model_still_writes_the_call(stages: Stages) -> None:
    shown = asyncio.Event()

    async def held(request: ModelRequest) -> AsyncGenerator[ModelItem, None]:
        yield ToolCallDelta(0, "look", "a")
        await shown.wait()
        yield call("look", call_id="a")

    with ScriptedModel([held, say("Done.")]) as model:
        stage = await stages(model)
        handle = await stage.start()
        [begun] = await stage.until(lambda: stage.of(ToolStateEvent))
        shown.set()
        await handle.wait()
    assert (begun.tool_call_id, begun.tool_input) == ("a", None)
    assert [event.tool_input for event in stage.of(ToolStateEvent)] == [None, "{}"]


async def test_a_client_is_told_the_tools_of_the_newest_run_also_after_a_restart(
    stages: Stages, tmp_path: Path
) -> None:
    path = tmp_path / "log.sqlite"
    with ScriptedModel([say("ok")]) as model:
        stage = await stages(model, path=path)
        assert await stage.conversation.tools() == ()
        await (await stage.start(tools=(LOOK,))).wait()
        assert await stage.conversation.tools() == (LOOK,)
    runtime = await Runtime.open(path, OneModel(model))
    conversation = await runtime.conversation(stage.conversation.conversation_id)
    assert await conversation.tools() == (LOOK,)
    await runtime.aclose()
