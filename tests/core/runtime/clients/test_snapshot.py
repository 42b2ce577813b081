"""What clients and HTTP are told of a conversation is what the log has: each event once, in order, from any point."""

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent_kernel.errors import UnknownConversation
from agent_kernel.log import runs
from agent_kernel.log.store import Log
from agent_kernel.models.base import ModelItem, ModelRequest, ReasoningDelta, TextDelta, ToolCallDelta
from agent_kernel.protocol.calls import ApprovedCall, Outcome
from agent_kernel.protocol.commands import Decision
from agent_kernel.protocol.events import (
    ApprovalRequestEvent,
    CompleteEvent,
    MessageEvent,
    ReasoningEvent,
    TokenEvent,
    ToolCompleteEvent,
    ToolStateEvent,
)
from agent_kernel.protocol.views import OutputView
from agent_kernel.runtime.clients.feed import Feed
from agent_kernel.runtime.runtime import Runtime
from agent_kernel.runtime.settings import RunSpec
from agent_kernel.testing import ScriptedModel, call, calls, say
from agent_kernel.tools.executor import OutputSink
from tests.core.runtime.runtime_fixtures import FunctionExecutor, OneModel, Stage, Stages


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
    [outcome] = stage.of(ToolCompleteEvent)
    assert outcome.seq < min(event.seq for event in stage.of(TokenEvent) if event.message_id == list(messages)[-1])
    assert result.text == "The answer is 42."
    assert stage.of(CompleteEvent)[0].message_id == list(messages)[-1]


def plot(call: ApprovedCall, emit: OutputSink) -> Outcome:
    emit(OutputView(kind="display", data={"text/plain": "<plot “é”>"}, display_id="d"))
    emit(OutputView(kind="stream", name="stdout", text="one\ntwo"))
    return Outcome("success", "<plot “é”>")


async def told(stages: Stages, path: Path) -> Stage:
    """A conversation with a call of each kind: done, denied, not valid, and one that waits."""
    turns = [
        calls(
            call("run_python", code="open('x', 'w')", call_id="a"),
            call("run_python", code="2", call_id="b"),
            call("no_such_tool", call_id="c"),
        ),
        say("It is “there”."),
        call("run_python", code="3", call_id="d"),
    ]
    stage: Stage = await stages(ScriptedModel(turns), executor=FunctionExecutor(act=plot), path=path)
    handle = await stage.start()
    first, second = await stage.requests(2)
    await stage.conversation.route_decision(first.approval_id, Decision(approved=True), decided_by="ana")
    await stage.conversation.route_decision(second.approval_id, Decision(approved=False, reason="No."))
    await handle.wait()
    await stage.start("And now?")
    await stage.until(lambda: [one for one in stage.of(ApprovalRequestEvent) if one.tool_call_id == "d"])
    return stage


async def test_a_snapshot_has_all_that_a_client_shows(stages: Stages, tmp_path: Path) -> None:
    stage = await told(stages, tmp_path / "log.sqlite")
    view = await stage.conversation.view()
    assert (view.status, view.last_seq) == ("awaiting_approval", stage.conversation.last_seq)
    first, denied, invalid, waiting = view.tool_calls
    assert [output.kind for output in first.outputs] == ["display", "stream"]
    assert [one.state for one in (first, denied, invalid, waiting)] == [
        "success",
        "denied",
        "invalid",
        "awaiting_approval",
    ]
    assert first.warnings[0].title == "Writes files:"
    assert waiting.preview is not None
    assert [offer.text for offer in waiting.rules][-2:] == ["allow run_python", "allow *"]


async def test_the_list_has_whole_conversations_in_pages(stages: Stages, tmp_path: Path) -> None:
    stage = await told(stages, tmp_path / "log.sqlite")
    others = [await stage.runtime.create_conversation() for _ in range(3)]
    names = [one.conversation_id for one in (stage.conversation, *others)]
    listed = orjson.loads(await stage.runtime.list_conversations())
    assert [one["conversation_id"] for one in listed] == names
    whole = (await stage.conversation.view()).model_dump(mode="json")
    assert listed[0] == whole
    assert (listed[1]["status"], listed[1]["messages"], listed[1]["last_seq"]) == ("idle", [], 0)
    page = orjson.loads(await stage.runtime.list_conversations(after=names[1], limit=1))
    assert [one["conversation_id"] for one in page] == names[2:3]
    assert orjson.loads(await stage.runtime.list_conversations(after=names[3])) == []
    with pytest.raises(UnknownConversation):
        await stage.runtime.list_conversations(after="nowhere")


async def thinks_and_begins(request: ModelRequest) -> AsyncGenerator[ModelItem, None]:
    yield ReasoningDelta("Let me see.")
    yield TextDelta("Half an ans")
    await asyncio.Event().wait()


async def begins_a_call(request: ModelRequest) -> AsyncGenerator[ModelItem, None]:
    yield ToolCallDelta(0, "run_python", "half")
    await asyncio.Event().wait()


async def resume_from(stage: Stage) -> int:
    snapshot = await stage.conversation.snapshot()
    assert snapshot.view.last_seq == stage.conversation.last_seq
    return snapshot.resume_from


@pytest.mark.parametrize("steps", [1, 40])
async def test_of_a_long_run_it_is_the_turn_that_the_model_is_writing(stages: Stages, steps: int) -> None:
    looks = [call("look", call_id=f"c{number}") for number in range(steps)]
    stage = await stages(ScriptedModel([*looks, thinks_and_begins]))
    await stage.start()
    await stage.until(lambda: [event for event in stage.of(TokenEvent) if event.content == "Half an ans"])
    assert await resume_from(stage) == stage.of(ReasoningEvent)[-1].seq - 1


async def test_a_call_that_the_model_is_writing_is_part_of_it(stages: Stages) -> None:
    stage = await stages(ScriptedModel([call("look", call_id="a"), begins_a_call]))
    await stage.start()
    cards = await stage.until(lambda: [event for event in stage.of(ToolStateEvent) if event.tool_call_id == "half"])
    assert await resume_from(stage) == cards[0].seq - 1


PATHS = ("a.ipynb", "folder/a.ipynb", "folder/b.ipynb", "folders/a.ipynb", None)


async def finished(runtime: Runtime, path: str | None) -> None:
    conversation = await runtime.create_conversation(notebook_path=None)
    spec = RunSpec(run_id=f"run_{path}", prompt="Go on.", notebook_path=path, cell_id="cell_1")
    await (await conversation.start_run(spec, None)).wait()


async def test_runs_follow_the_rename_of_their_notebook_and_of_a_folder(tmp_path: Path) -> None:
    with ScriptedModel([say("Done.") for _ in PATHS]) as model:
        runtime = await Runtime.open(tmp_path / "log.sqlite", OneModel(model))
        for path in PATHS:
            await finished(runtime, path)
        await runtime.rename_notebooks("folder", "else/100%")
        await runtime.rename_notebooks("a.ipynb", "b's.ipynb")
        await runtime.rename_notebooks("nothing.ipynb", "else.ipynb")
        listed = await runtime.list_runs()
        await runtime.aclose()
    assert [run.notebook for run in listed] == [
        "b's.ipynb",
        "else/100%/a.ipynb",
        "else/100%/b.ipynb",
        "folders/a.ipynb",
        None,
    ]
    assert {run.cell_id for run in listed} == {"cell_1"}
