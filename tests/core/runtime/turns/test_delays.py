"""A run whose model's service has to be asked again: what is shown, Try now, Stop, and a connection that is cut."""

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from agent_kernel.log import message_rows
from agent_kernel.models.base import ModelTurn
from agent_kernel.models.http import HttpModel
from agent_kernel.protocol.commands import CancelCommand, TryNowCommand
from agent_kernel.protocol.events import MessageEvent, RunEvent
from agent_kernel.protocol.views import ConversationView, DelayView
from agent_kernel.record.story import make_story
from agent_kernel.record.words import delayed
from agent_kernel.runtime.clients.dispatch import handle_command
from agent_kernel.testing import FakeOpenAI, VirtualClock, say
from agent_kernel.testing.fake_service import Scripted
from agent_kernel.testing.wire.chat import delta
from agent_kernel.testing.wire.reply import Reply, events, rate_limited
from tests.core.models.model_fixtures import model_at
from tests.core.runtime.runtime_fixtures import Stage, Stages


@asynccontextmanager
async def model_of(*script: Scripted, auto: bool = False) -> AsyncIterator[tuple[HttpModel, FakeOpenAI, VirtualClock]]:
    clock = VirtualClock(auto=auto)
    with FakeOpenAI(script) as server:
        model = model_at(server.url, wire_name="m", clock=clock)
        try:
            yield model, server, clock
        finally:
            await model.aclose()


@asynccontextmanager
async def staged(
    stages: Stages, *script: Scripted, auto: bool = False
) -> AsyncIterator[tuple[Stage, FakeOpenAI, VirtualClock]]:
    async with model_of(*script, auto=auto) as (model, server, clock):
        yield await stages(model), server, clock


def delays(stage: Stage) -> list[DelayView]:
    return [event.run.delay for event in stage.of(RunEvent) if event.run.delay is not None]


async def advance(clock: VirtualClock, seconds: float) -> None:
    """Advance the time once something waits for that: a delay is shown before it begins."""
    while not clock.sleepers:  # noqa: ASYNC110 -- the clock tells nobody
        await asyncio.sleep(0)
    clock.advance(seconds)


async def snapshot(stage: Stage) -> ConversationView:
    return await stage.conversation.view()


async def test_try_now_asks_at_once_and_says_so_and_pressed_twice_it_asks_once(stages: Stages) -> None:
    hurry_seen = threading.Event()

    def limits_again(_request: dict[str, Any]) -> Reply:
        assert hurry_seen.wait(30)
        return rate_limited(retry_after="30")

    async with staged(stages, rate_limited(retry_after="30"), limits_again, say("Hi")) as (stage, server, clock):
        handle = await stage.start()
        await stage.until(lambda: delays(stage))
        for _ in range(2):
            await handle_command(TryNowCommand(run_id=handle.run_id), stage.conversation)
        first, hurried = await stage.until(lambda: delays(stage) if len(delays(stage)) == 2 else None)
        assert hurried.since == first.since
        assert hurried.until < first.until
        hurry_seen.set()
        *_, second = await stage.until(lambda: delays(stage) if len(delays(stage)) == 3 else None)
        assert (second.attempt, second.since >= first.since) == (2, True)
        assert len(server.requests) == 2
        await stage.conversation.try_now(handle.run_id)
        assert (await handle.wait()).text == "Hi"
    assert clock.sleepers == 0


async def test_stop_ends_the_wait_at_once_and_nothing_more_is_asked(stages: Stages) -> None:
    async with staged(stages, rate_limited(retry_after="30")) as (stage, server, clock):
        handle = await stage.start()
        await stage.until(lambda: delays(stage))
        await handle_command(CancelCommand(run_id=handle.run_id), stage.conversation)
        result = await handle.wait()
    assert (result.run.status, result.run.delay) == ("cancelled", None)
    assert len(server.requests) == 1
    assert clock.sleepers == 0


async def test_a_slow_model_is_said_to_be_waited_for_since_it_was_asked_until_it_answers(stages: Stages) -> None:
    seen = threading.Event()

    def answers_once_that_was_seen(_request: dict[str, Any]) -> ModelTurn:
        assert seen.wait(30)
        return say("Hi")

    async with model_of(answers_once_that_was_seen) as (model, _, __):
        stage = await stages(model, slow_seconds=0.2)
        handle = await stage.start()
        [delay] = await stage.until(lambda: delays(stage))
        started = (await snapshot(stage)).runs[0].started_at
        assert (delay.kind, delay.until, delay.cause, delay.attempt) == ("slow", None, "", 1)
        assert delay.since >= started
        assert delayed(delay).startswith("Waiting for the model\u2019s answer, ")
        seen.set()
        result = await handle.wait()
    assert (result.text, result.run.delay, len(delays(stage))) == ("Hi", None, 1)


async def test_what_came_before_a_cut_is_in_the_record_and_in_the_page_until_it_is_tried_again(stages: Stages) -> None:
    half = events(delta(content="Half an "), delta(content="answer, then"), pause=0.02, cut_after=10**6)
    async with staged(stages, half, say("A whole answer.")) as (stage, server, _):
        handle = await stage.start()
        failed = await handle.wait()
        assert failed.run.status == "error"
        assert failed.run.error.message == (
            "The answer was cut off after 4 words: the connection was closed early. "
            "What came is kept in the record. Try again asks the model once more."
        )
        story = make_story(failed.run, failed.messages, failed.tool_calls)
        assert (story.answers, story.error) == (("Half an answer, then",), failed.run.error.message)
        assert [one.content for one in (await snapshot(stage)).messages] == ["Go", "Half an answer, then"]
        again = await (await stage.conversation.retry_run(handle.run_id)).wait()
        assert (again.text, [one.content for one in again.messages]) == ("A whole answer.", ["Go", "A whole answer."])
    assert [message["role"] for message in server.requests[1].body["messages"]] == ["system", "user"]
    taken_back = [event for event in stage.of(MessageEvent) if event.role == "assistant" and event.content == ""]
    assert len(taken_back) == 1
    number = stage.conversation.row.number
    assert await stage.log.read(lambda sql: message_rows.cut_off_answers(sql, number, handle.run_id)) == []
