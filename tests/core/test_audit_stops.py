"""The audit trail names who pressed Stop, when, and which calls that ended or interrupted."""

from typing import Any

import pytest

from agent_kernel.errors import IllegalTransition
from agent_kernel.log import audit
from agent_kernel.loop.commands import obey
from agent_kernel.protocol.commands import CancelCommand, Decision, ToolCancelCommand
from agent_kernel.testing import ScriptedModel, call, calls, say
from tests.core.brain_fixtures import InterruptibleHands, Stage

TWO_CALLS = calls(call("run_python", code="1", call_id="a"), call("run_python", code="2", call_id="b"))


async def entries(stage: Stage) -> list[dict[str, Any]]:
    log = stage.conversation._host.log
    assert await log.read(audit.check) is None
    return await log.read(lambda sql: [entry.fields for entry in audit.read_entries(sql)])


async def stops(stage: Stage) -> list[dict[str, Any]]:
    return [entry for entry in await entries(stage) if entry["kind"] == "stop"]


async def test_stop_is_in_the_trail_before_the_ends_that_it_causes(stages: Any) -> None:
    with ScriptedModel([TWO_CALLS]) as model:
        stage = await stages(model, hands=InterruptibleHands())
        handle = await stage.start()
        first, _ = await stage.requests(2)
        await stage.conversation.decide(first.approval_id, Decision(approved=True), decided_by="ana")
        await stage.until(lambda: stage.of("tool_output"))
        await obey(CancelCommand(type="cancel", run_id=handle.run_id), stage.conversation, "eve")
        await handle.wait()
    [stop] = await stops(stage)
    assert (stop["run_id"], stop["conversation_id"]) == (handle.run_id, stage.conversation.conversation_id)
    assert (stop["by"], stop["decided_by"], stop["whole_run"]) == ("user", "eve", True)
    assert sorted(stop["tool_call_ids"]) == ["a", "b"]
    told = await entries(stage)
    ends = [one for one in told if one["kind"] == "outcome"]
    assert [one["state"] for one in ends] == ["cancelled", "cancelled"]
    assert all(told.index(stop) < told.index(end) and stop["at"] <= end["at"] for end in ends)


async def test_cancel_of_one_call_names_that_call_only(stages: Any) -> None:
    with ScriptedModel([TWO_CALLS, say("Done.")]) as model:
        stage = await stages(model)
        handle = await stage.start()
        _, second = await stage.requests(2)
        cancel = ToolCancelCommand(type="tool_cancel", tool_call_id="a")
        await obey(cancel, stage.conversation, "eve")
        with pytest.raises(IllegalTransition):
            await obey(cancel, stage.conversation, "mallory")
        await stage.conversation.decide(second.approval_id, Decision(approved=True), decided_by="ana")
        await handle.wait()
    [stop] = await stops(stage)
    assert (stop["tool_call_ids"], stop["decided_by"], stop["whole_run"]) == (["a"], "eve", False)


async def test_a_running_call_that_is_cancelled_is_noted_too(stages: Any) -> None:
    with ScriptedModel([call("run_python", code="1", call_id="a"), say("Done.")]) as model:
        stage = await stages(model, hands=InterruptibleHands())
        handle = await stage.start()
        [first] = await stage.requests()
        await stage.conversation.decide(first.approval_id, Decision(approved=True))
        await stage.until(lambda: stage.of("tool_output"))
        await obey(ToolCancelCommand(type="tool_cancel", tool_call_id="a"), stage.conversation, "eve")
        await handle.wait()
    [stop] = await stops(stage)
    assert (stop["tool_call_ids"], stop["decided_by"]) == (["a"], "eve")


async def test_a_run_that_is_taken_out_of_the_queue_and_a_deleted_conversation_are_noted(stages: Any) -> None:
    with ScriptedModel([call("run_python", code="1", call_id="a")]) as model:
        stage = await stages(model)
        first = await stage.start()
        await stage.requests()
        second = await stage.start()
        await obey(CancelCommand(type="cancel", run_id=second.run_id), stage.conversation, "eve")
        log = stage.conversation._host.log
        await stage.brain.delete_conversation(stage.conversation.conversation_id, decided_by="ana")
        told = await log.read(lambda sql: [entry.fields for entry in audit.read_entries(sql)])
    noted = [(one["run_id"], one["tool_call_ids"], one["decided_by"]) for one in told if one["kind"] == "stop"]
    assert noted == [(second.run_id, [], "eve"), (first.run_id, ["a"], "ana")]


async def test_a_run_that_nobody_stopped_has_no_such_entry(stages: Any) -> None:
    with ScriptedModel([TWO_CALLS]) as model:
        stage = await stages(model)
        handle = await stage.start()
        await stage.requests(2)
        await stage.conversation.kernel_gone("The kernel died.", restarting=False)
        assert (await handle.wait()).run.error.code == "KERNEL_DIED"
    assert await stops(stage) == []
    assert [one["state"] for one in await entries(stage)] == ["cancelled", "cancelled"]
