"""What people decide is written into a real recording, and decides again where it plays."""

import asyncio
from pathlib import Path

from agent_kernel.models.recordings.format import load
from agent_kernel.models.recordings.player import RecordedModel
from agent_kernel.models.recordings.recorder import record
from agent_kernel.protocol.commands import Decision
from agent_kernel.testing import ScriptedModel, call, calls, say
from tests.core.runtime.runtime_fixtures import LOOK, RUN_PYTHON, Stages


async def test_decisions_of_a_recording_replay_with_and_without_a_person(stages: Stages, tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    turn = calls(*[call("run_python", code=code) for code in ("a", "a", "b")])
    stage = await stages(record(path, ScriptedModel([turn, say("Done.")])))
    handle = await stage.start("Clean up")
    decisions = [
        Decision(approved=True),
        Decision(approved=False, reason="Once is enough."),
        Decision(approved=True, edited_input={"code": "c"}),
    ]
    for request, decision in zip(await stage.requests(3), decisions, strict=True):
        await stage.conversation.route_decision(request.approval_id, decision)
    assert (await handle.wait()).run.status == "complete"
    for attended in (True, False):
        model = RecordedModel(load(path), name="replay:run.jsonl")
        stage = await stages(model, attended=attended)
        script = () if attended else model.scripted_decisions("Clean up")
        spec_run = await stage.start("Clean up", tools=(RUN_PYTHON, LOOK), script=script)
        async with asyncio.timeout(60):
            result = await spec_run.wait()
        assert result.run.error is None
        assert [(one.state, one.decided_by) for one in result.tool_calls] == [
            ("success", "a recording"),
            ("denied", "a recording"),
            ("success", "a recording"),
        ]
        assert [ran.arguments_json for ran in stage.executor.ran] == ['{"code":"a"}', '{"code":"c"}']
