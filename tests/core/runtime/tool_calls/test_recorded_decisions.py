"""What people decide is written into a real recording, and decides again where it plays."""

import asyncio
import json
from pathlib import Path

import pytest

from agent_kernel.models.recordings.format import load
from agent_kernel.models.recordings.player import RecordedModel
from agent_kernel.models.recordings.recorder import record
from agent_kernel.protocol.commands import Decision
from agent_kernel.protocol.events import RunEvent, ToolStartEvent
from agent_kernel.testing import ScriptedModel, call, calls, say
from agent_kernel.tools.arguments import canonical, digest
from tests.core.runtime.runtime_fixtures import LOOK, RUN_PYTHON, FunctionExecutor, Stages, second_life, stage
from tests.core.runtime.tool_calls.test_scripts import ASK_USER


async def test_decisions_of_a_recording_replay_with_and_without_a_person(stages: Stages, tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    turn = calls(*[call("run_python", code=code) for code in ("a", "a", "b")], call("look"))
    question = call("ask_user", question="Which?")
    tools = (RUN_PYTHON, LOOK, ASK_USER)
    stage = await stages(record(path, ScriptedModel([turn, question, say("Done.")])))
    handle = await stage.start("Clean up", tools=tools)
    decisions = [
        Decision(approved=True),
        Decision(approved=False, reason="Once is enough."),
        Decision(approved=True, edited_input={"code": "c"}),
    ]
    for number in (3, 2, 1):  # they are written in the order of the calls
        await stage.decide(decisions[number - 1], number)
    asked = await stage.until(lambda: [one for one in stage.of(ToolStartEvent) if one.tool_name == "ask_user"])
    await stage.conversation.tool_result(asked[0].tool_call_id, "The first.")
    assert (await handle.wait()).run.status == "complete"
    for attended in (True, False):
        model = RecordedModel(load(path), name="replay:run.jsonl")
        stage = await stages(model, attended=attended)
        script = () if attended else model.scripted_decisions("Clean up")
        spec_run = await stage.start("Clean up", tools=tools, script=script)
        async with asyncio.timeout(60):
            result = await spec_run.wait()
        assert result.run.error is None
        assert [(one.state, one.decided_by) for one in result.tool_calls] == [
            ("success", "a recording"),
            ("denied", "a recording"),
            ("success", "a recording"),
            ("success", None),
            ("success", "a recording"),
        ]
        assert result.tool_calls[-1].result == "The first."
        assert [ran.arguments_json for ran in stage.executor.ran] == ['{"code":"a"}', '{"code":"c"}', "{}"]


async def test_a_recording_that_can_not_be_written_any_more_ends_the_run_with_file_and_remedy(
    stages: Stages, tmp_path: Path
) -> None:
    """The answer is written, and then the decision is not."""
    path = tmp_path / "there" / "run.jsonl"
    stage = await stages(record(path, ScriptedModel([call("run_python", code="a"), say("Done.")])))
    handle = await stage.start("Clean up")
    (request,) = await stage.requests(1)
    written = path.read_bytes()
    path.with_name(f".{path.name}.lock").unlink()
    path.with_name(f".{path.name}.lock").mkdir()
    await stage.conversation.route_decision(request.approval_id, Decision(approved=True))
    async with asyncio.timeout(60):
        result = await handle.wait()
    assert result.run.error is not None
    assert result.run.error.code == "LLM_ERROR"
    assert f"The recording {path} can't be written: Is a directory." in result.run.error.message
    assert "agent-kernel record NOTEBOOK" in result.run.error.message
    assert [one.state for one in result.tool_calls] == ["success"]
    assert path.read_bytes() == written


KEY = "sk-abcdef0123456789abcdef"


@pytest.mark.parametrize("attended", [True, False])
async def test_a_call_whose_arguments_had_a_key_replays_and_no_other_is_approved(
    stages: Stages, tmp_path: Path, attended: bool
) -> None:
    path = tmp_path / "run.jsonl"
    code = f"connect('{KEY}', 'b')"
    stage = await stages(record(path, ScriptedModel([call("run_python", code=code), say("Done.")])))
    handle = await stage.start("Connect")
    await stage.approve()
    assert (await handle.wait()).tool_calls[0].state == "success"
    assert [json.loads(ran.arguments_json)["code"] for ran in stage.executor.ran] == [code]
    assert KEY not in path.read_text()
    (decided,) = load(path).decisions
    # What was approved is in the file as a digest only of what the file shows.
    assert decided.arguments == {"code": "connect('[API key]', 'b')"}
    assert decided.digest == digest(canonical(decided.arguments))

    player = RecordedModel(load(path), name="replay:run.jsonl")
    stage = await stages(player, attended=attended)
    script = () if attended else player.scripted_decisions("Connect")
    async with asyncio.timeout(60):
        result = await stage.run("Connect", script=script)
    assert [(one.state, one.decided_by) for one in result.tool_calls] == [("success", "a recording")]
    assert [json.loads(ran.arguments_json)["code"] for ran in stage.executor.ran] == ["connect('[API key]', 'b')"]

    for other in ("connect('[API key]', 'c')", code, f"connect('{KEY[:-1]}0', 'b')"):
        stage = await stages(ScriptedModel([call("run_python", code=other), say("Done.")]), attended=False)
        async with asyncio.timeout(60):
            result = await stage.run("Connect", script=player.scripted_decisions("Connect"))
        assert [one.state for one in result.tool_calls] == ["denied"], other


ALLOWS_A = 'allow run_python where code is "a"'


async def recorded_with_a_rule(stages: Stages, path: Path) -> RecordedModel:
    """Two steps, and a decision on the second alone: a rule of the notebook allowed the first."""
    turns = [call("run_python", code="a"), call("run_python", code="b"), say("Done.")]
    stage = await stages(record(path, ScriptedModel(turns)))
    handle = await stage.start("Clean up", rules=(ALLOWS_A,))
    await stage.decide(Decision(approved=False, reason="Not b."))
    assert (await handle.wait()).run.status == "complete"
    return RecordedModel(load(path), name="replay:run.jsonl")


async def test_a_call_that_the_recording_does_not_cover_is_left_to_the_person(stages: Stages, tmp_path: Path) -> None:
    stage = await stages(await recorded_with_a_rule(stages, tmp_path / "run.jsonl"))
    handle = await stage.start("Clean up")
    (request,) = await stage.requests(1)
    assert request.tool_input == '{"code":"a"}'
    (notice,) = stage.of(RunEvent)[-1].run.notices
    assert notice.content.startswith("You are asked. The recording has no decision on this call.\nrecorded: ")
    assert 'actual:   run_python {"code":"a"}' in notice.content
    await stage.conversation.route_decision(request.approval_id, Decision(approved=True), decided_by="ana")
    async with asyncio.timeout(60):
        result = await handle.wait()
    assert result.run.error is None
    assert [(one.state, one.decided_by) for one in result.tool_calls] == [("success", "ana"), ("denied", "a recording")]


async def test_a_run_of_a_recording_goes_on_with_its_decisions_after_a_restart(stages: Stages, tmp_path: Path) -> None:
    await recorded_with_a_rule(stages, tmp_path / "run.jsonl")
    log = tmp_path / "log.sqlite"
    before = await stage(RecordedModel(load(tmp_path / "run.jsonl"), name="replay:run.jsonl"), log)
    await before.start("Clean up")
    (request,) = await before.requests(1)
    executor = FunctionExecutor()
    again = RecordedModel(load(tmp_path / "run.jsonl"), name="replay:run.jsonl")
    async with second_life(log, again, before, executor) as (conversation, [handle]):
        await conversation.route_decision(request.approval_id, Decision(approved=True))
        async with asyncio.timeout(60):
            result = await handle.wait()
    assert result.run.error is None
    assert [(one.state, one.by, one.decided_by) for one in result.tool_calls] == [
        ("success", "user", None),
        ("denied", "script", "a recording"),
    ]
    assert [ran.arguments_json for ran in executor.ran] == ['{"code":"a"}']
