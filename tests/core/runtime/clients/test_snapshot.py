"""What clients and HTTP are told of a conversation is what the log has."""

from pathlib import Path

import orjson
import pytest

from agent_kernel.errors import UnknownConversation
from agent_kernel.protocol.calls import ApprovedCall, Outcome
from agent_kernel.protocol.commands import Decision
from agent_kernel.protocol.events import ApprovalRequestEvent
from agent_kernel.protocol.views import OutputView
from agent_kernel.testing import ScriptedModel, call, calls, say
from agent_kernel.tools.executor import OutputSink
from tests.core.runtime.runtime_fixtures import FunctionExecutor, Stage, Stages


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
