"""A run whose model's service has to be asked again: what is shown, Try now, Stop, and a connection that is cut."""

import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from agent_kernel.protocol.commands import TryNowCommand
from agent_kernel.protocol.events import MessageEvent, RunEvent
from agent_kernel.protocol.views import DelayView
from agent_kernel.record.story import make_story
from agent_kernel.runtime.clients.dispatch import handle_command
from agent_kernel.testing import FakeOpenAI, VirtualClock, say
from agent_kernel.testing.fake_service import Scripted
from agent_kernel.testing.wire.chat import delta
from agent_kernel.testing.wire.reply import Reply, events, rate_limited
from tests.core.models.model_fixtures import model_at
from tests.core.runtime.runtime_fixtures import Stage, Stages


@asynccontextmanager
async def staged(
    stages: Stages, *script: Scripted, **settings: Any
) -> AsyncIterator[tuple[Stage, FakeOpenAI, VirtualClock]]:
    clock = VirtualClock(auto=False)
    with FakeOpenAI(script) as server:
        model = model_at(server.url, wire_name="m", clock=clock)
        yield await stages(model, **settings), server, clock
        await model.aclose()


def delays(stage: Stage) -> list[DelayView]:
    return [event.run.delay for event in stage.of(RunEvent) if event.run.delay is not None]


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


async def test_what_came_before_a_cut_is_in_the_record_and_in_the_page_until_it_is_tried_again(stages: Stages) -> None:
    half = events(delta(content="Half an "), delta(content="answer, then"), pause=0.02, cut_after=10**6)
    async with staged(stages, half, say("A whole answer.")) as (stage, server, _):
        failed = await stage.run()
        assert failed.run.status == "error"
        assert failed.run.error.message == (
            "The answer was cut off after 4 words: the connection was closed early. "
            "What came is kept in the record. Try again asks the model once more."
        )
        story = make_story(failed.run, failed.messages, failed.tool_calls)
        assert (story.answers, story.error) == (("Half an answer, then",), failed.run.error.message)
        shown = (await stage.conversation.view()).messages
        assert [one.content for one in shown] == ["Go", "Half an answer, then"]
        again = await (await stage.conversation.retry_run(failed.run.run_id)).wait()
        assert (again.text, [one.content for one in again.messages]) == ("A whole answer.", ["Go", "A whole answer."])
    assert [message["role"] for message in server.requests[1].body["messages"]] == ["system", "user"]
    taken_back = [event for event in stage.of(MessageEvent) if event.role == "assistant" and event.content == ""]
    assert len(taken_back) == 1
