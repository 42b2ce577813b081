"""The audit trail names who pressed Stop, or sent a message in place of deciding, when, and which calls that ended."""

import json
from pathlib import Path
from typing import Any

import pytest

from agent_kernel import cli
from agent_kernel.errors import IllegalTransition
from agent_kernel.protocol.commands import CancelCommand, Decision, MessageCommand, ToolCancelCommand, ToolRetryCommand
from agent_kernel.protocol.events import ToolOutputEvent
from agent_kernel.runtime.clients.dispatch import handle_command
from agent_kernel.testing import ScriptedModel, call, calls, say
from tests.core.runtime.runtime_fixtures import InterruptibleExecutor, Stage, Stages, stage

TWO_CALLS = calls(call("run_python", code="1", call_id="a"), call("run_python", code="2", call_id="b"))


async def stops(stage: Stage) -> list[dict[str, Any]]:
    return [entry for entry in await stage.audit() if entry["kind"] == "stop"]


async def test_stop_is_in_the_trail_before_the_ends_that_it_causes(stages: Stages) -> None:
    stage = await stages([TWO_CALLS], executor=InterruptibleExecutor())
    handle = await stage.start()
    first, _ = await stage.requests(2)
    await stage.conversation.route_decision(first.approval_id, Decision(approved=True), decided_by="ana")
    await stage.until(lambda: stage.of(ToolOutputEvent))
    await handle_command(CancelCommand(type="cancel", run_id=handle.run_id), stage.conversation, "eve")
    await handle.wait()
    [stop] = await stops(stage)
    assert (stop["run_id"], stop["conversation_id"]) == (handle.run_id, stage.conversation.conversation_id)
    assert (stop["by"], stop["decided_by"], stop["whole_run"]) == ("user", "eve", True)
    assert sorted(stop["tool_call_ids"]) == ["a", "b"]
    told = await stage.audit()
    ends = [one for one in told if one["kind"] == "outcome"]
    assert [one["state"] for one in ends] == ["cancelled", "cancelled"]
    assert all(told.index(stop) < told.index(end) and stop["at"] <= end["at"] for end in ends)


async def test_cancel_of_one_call_names_that_call_only(stages: Stages) -> None:
    stage = await stages([TWO_CALLS, say("Done.")])
    handle = await stage.start()
    _, second = await stage.requests(2)
    cancel = ToolCancelCommand(type="tool_cancel", tool_call_id="a")
    await handle_command(cancel, stage.conversation, "eve")
    with pytest.raises(IllegalTransition):
        await handle_command(cancel, stage.conversation, "mallory")
    await stage.conversation.route_decision(second.approval_id, Decision(approved=True), decided_by="ana")
    await handle.wait()
    [stop] = await stops(stage)
    assert (stop["tool_call_ids"], stop["decided_by"], stop["whole_run"]) == (["a"], "eve", False)


async def test_a_running_call_that_is_cancelled_is_noted_too(stages: Stages) -> None:
    stage = await stages([call("run_python", code="1", call_id="a"), say("Done.")], executor=InterruptibleExecutor())
    handle = await stage.start()
    await stage.approve()
    await stage.until(lambda: stage.of(ToolOutputEvent))
    await handle_command(ToolCancelCommand(type="tool_cancel", tool_call_id="a"), stage.conversation, "eve")
    await handle.wait()
    [stop] = await stops(stage)
    assert (stop["tool_call_ids"], stop["decided_by"]) == (["a"], "eve")


async def test_a_run_that_is_taken_out_of_the_queue_and_a_deleted_conversation_are_noted(stages: Stages) -> None:
    stage = await stages([call("run_python", code="1", call_id="a")])
    first = await stage.start()
    await stage.requests()
    second = await stage.start()
    await handle_command(CancelCommand(type="cancel", run_id=second.run_id), stage.conversation, "eve")
    await stage.runtime.delete_conversation(stage.conversation.conversation_id, decided_by="ana")
    told = await stage.audit()
    noted = [(one["run_id"], one["tool_call_ids"], one["decided_by"]) for one in told if one["kind"] == "stop"]
    assert noted == [(second.run_id, [], "eve"), (first.run_id, ["a"], "ana")]


async def messages(stage: Stage) -> list[dict[str, Any]]:
    return [entry for entry in await stage.audit() if entry["kind"] == "message"]


async def test_a_message_in_place_of_a_decision_names_who_sent_it_and_the_calls_that_it_replaced(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "log.sqlite"
    with ScriptedModel([TWO_CALLS, say("Something else, then.")]) as model:
        one = await stage(model, path)
        handle = await one.start()
        await one.requests(2)
        await handle_command(MessageCommand(type="message", content="Something else."), one.conversation, "eve")
        assert (await handle.wait()).text == "Something else, then."
        [sent] = await messages(one)
        told = await one.audit()
        await one.close()
    assert (sent["conversation_id"], sent["run_id"]) == (one.conversation.conversation_id, handle.run_id)
    assert (sent["by"], sent["decided_by"], sorted(sent["tool_call_ids"])) == ("user", "eve", ["a", "b"])
    ends = [entry for entry in told if entry["kind"] == "outcome"]
    assert [entry["state"] for entry in ends] == ["superseded", "superseded"]
    assert all(told.index(sent) < told.index(end) for end in ends)
    assert "Something else" not in json.dumps(sent)
    assert cli.main(["audit", "--log", str(path)]) == 0
    assert sent in [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert cli.main(["audit", "--log", str(path), "--check"]) == 0


async def test_a_call_that_is_asked_for_again_names_who_did_that_to_those_that_wait(stages: Stages) -> None:
    stage = await stages([TWO_CALLS, say("Done.")])
    handle = await stage.start()
    first, second = await stage.requests(2)
    await stage.conversation.route_decision(first.approval_id, Decision(approved=False))
    await handle_command(ToolRetryCommand(tool_call_id=first.tool_call_id), stage.conversation, "eve")
    await handle.wait()
    [sent] = await messages(stage)
    assert (sent["tool_call_ids"], sent["decided_by"]) == ([second.tool_call_id], "eve")
