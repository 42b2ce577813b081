"""What clients and HTTP are told of a conversation is what the log has: each event once, in order, from any point."""

import asyncio
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent_kernel.log import runs
from agent_kernel.log.store import Log
from agent_kernel.protocol.calls import ApprovedCall, Outcome
from agent_kernel.protocol.events import (
    CompleteEvent,
    MessageEvent,
    ReasoningEvent,
    TokenEvent,
    ToolCompleteEvent,
)
from agent_kernel.protocol.views import OutputView
from agent_kernel.runtime.clients.feed import Feed
from agent_kernel.testing import call, calls, say
from agent_kernel.tools.executor import OutputSink
from tests.core.runtime.runtime_fixtures import NO, YES, FunctionExecutor, Stage, Stages


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
    async with asyncio.timeout(60):
        assert await reading == [1, 2, 3, 4, 5, 6]
    feed.close()
    await here.aclose()
    await there.aclose()


async def test_tokens_join_to_the_whole_answer_and_events_come_in_the_promised_order(stages: Stages) -> None:
    turn = calls(call("look", call_id="a"), text="Let me look.", reasoning="Hm.")
    stage = await stages([turn, say("The answer is 42.")])
    result = await stage.run()
    await stage.until(lambda: stage.events and stage.events[-1].type == "run" and stage.events[-1].run.ended_at)
    seqs = [event.seq for event in stage.events]
    assert seqs == list(range(1, len(seqs) + 1))
    messages = {event.message_id: event.content for event in stage.of(MessageEvent) if event.role == "assistant"}
    for message_id, content in messages.items():
        tokens = [event.content for event in stage.of(TokenEvent) if event.message_id == message_id]
        assert "".join(tokens) == content
    assert "".join(event.content for event in stage.of(ReasoningEvent)) == "Hm."
    kinds = " ".join(event.type for event in stage.events if event.type not in ("token", "reasoning"))
    began = "run message message tool_state usage approval_response tool_start tool_output tool_complete"
    assert kinds == f"{began} message complete run"
    [outcome] = stage.of(ToolCompleteEvent)
    assert outcome.seq < min(event.seq for event in stage.of(TokenEvent) if event.message_id == list(messages)[-1])
    assert result.text == "The answer is 42."
    assert stage.of(CompleteEvent)[0].message_id == list(messages)[-1]


def plot(call: ApprovedCall, emit: OutputSink) -> Outcome:
    emit(OutputView(kind="display", data={"text/plain": "<plot “é”>"}, display_id="d"))
    emit(OutputView(kind="stream", name="stdout", text="one\ntwo"))
    return Outcome("success", "<plot “é”>")


@pytest.fixture
async def told(stages: Stages) -> Stage:
    """A conversation with a call of each kind: done, denied, not valid, and one that waits."""
    code = [call("run_python", code=text, call_id=name) for name, text in (("a", "open('x', 'w')"), ("b", "2"))]
    turns = [calls(*code, call("no_such_tool", call_id="c")), say("It is “there”.")]
    stage = await stages([*turns, call("run_python", code="3", call_id="d")], executor=FunctionExecutor(plot))
    await stage.run("Go", YES, NO)
    await stage.asking(3, "And now?")
    return stage


async def test_a_snapshot_has_all_that_a_client_shows(told: Stage) -> None:
    view = await told.conversation.view()
    assert (view.status, view.last_seq) == ("awaiting_approval", told.conversation.last_seq)
    assert [one.state for one in view.tool_calls] == ["success", "denied", "invalid", "awaiting_approval"]
    first, *_, waiting = view.tool_calls
    assert [output.kind for output in first.outputs] == ["display", "stream"]
    assert first.warnings[0].title == "Writes files:"
    assert waiting.preview is not None
    assert [offer.text for offer in waiting.rules][-2:] == ["allow run_python", "allow *"]
