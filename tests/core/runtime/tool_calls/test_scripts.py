"""Runs with a script: real log, real graph, scripted model. What people decide is written into a real recording, and
decides again where it plays."""

import json
from pathlib import Path
from typing import Any

import pytest

from agent_kernel.approvals.folder_file import FolderLimits, FolderRule
from agent_kernel.approvals.scripted import ScriptedDecision, approve, deny, edit
from agent_kernel.models.recordings.format import load
from agent_kernel.models.recordings.player import RecordedModel
from agent_kernel.models.recordings.recorder import record
from agent_kernel.protocol.commands import Decision
from agent_kernel.protocol.events import RunEvent, ToolStartEvent
from agent_kernel.protocol.run_results import RunResult
from agent_kernel.testing import ScriptedModel, call, calls, say
from agent_kernel.testing.scripted_model import ScriptedTurn
from agent_kernel.tools.arguments import canonical, digest
from tests.core.runtime.runtime_fixtures import ASK_USER, LOOK, RUN_PYTHON, YES, Stage, Stages, second_life

X1, X9 = {"code": "x = 1"}, {"code": "x = 9"}
ONE, NINE = call("run_python", **X1), call("run_python", **X9)
DENY_NINE = ('deny run_python where code is "x = 9"',)


def recorded(approved: bool, arguments: dict[str, Any], **more: Any) -> ScriptedDecision:
    approved_digest = digest(canonical(arguments))
    return ScriptedDecision(approved, "run_python", arguments=arguments, digest=approved_digest, recorded=True, **more)


async def run(stage: Stage, *script: ScriptedDecision, **spec: Any) -> RunResult:
    return await stage.run(script=script, tools=(RUN_PYTHON, LOOK, ASK_USER), **spec)


def outcomes(result: RunResult) -> list[tuple[str, str | None]]:
    return [(one.state, one.by) for one in result.tool_calls]


@pytest.mark.parametrize("attended", [True, False])
async def test_a_script_decides_at_once_also_where_a_person_is_there(stages: Stages, attended: bool) -> None:
    stage = await stages([calls(ONE, NINE), say("ok")], attended=attended)
    result = await run(stage, approve("run_python", X1), deny("Not nine.", "run_python"))
    assert outcomes(result) == [("success", "script"), ("denied", "script")]
    assert [ran.arguments_json for ran in stage.executor.ran] == [canonical(X1)]
    assert stage.told()[1].startswith("Denied by the user. Reason: Not nine.")
    assert [entry["by"] for entry in await stage.audit() if entry["kind"] == "decision"] == ["script", "script"]


@pytest.mark.parametrize("attended", [True, False])
async def test_a_call_that_the_script_does_not_cover_is_denied_and_both_are_shown(
    stages: Stages, attended: bool
) -> None:
    stage = await stages([NINE, say("ok")], attended=attended)
    result = await run(stage, approve("run_python", X1))
    assert (outcomes(result), stage.executor.ran) == ([("denied", "policy")], [])
    reason = result.tool_calls[0].reason or ""
    assert 'scripted: run_python {"code":"x = 1"}\nactual:   run_python {"code":"x = 9"}' in reason
    assert reason in stage.told()[0]


FILE = ".agent-kernel.toml"
LIMITS: dict[str, tuple[dict[str, Any], str]] = {
    "a site's cap": ({"policy_cap": "ask"}, "This site allows ask at most"),
    "a folder's rule": (
        {"read_limits": lambda _: FolderLimits(rules=(FolderRule("ask run_python", FILE),))},
        "of the folder asks",
    ),
}


@pytest.mark.parametrize("limit", LIMITS)
async def test_where_the_site_or_the_folder_asks_a_script_approves_nothing(stages: Stages, limit: str) -> None:
    settings, why = LIMITS[limit]
    for decision in (approve(), recorded(True, X1), edit(X9, "run_python")):
        stage = await stages([ONE, say("ok")], attended=False, **settings)
        result = await run(stage, decision)
        assert (outcomes(result), stage.executor.ran) == ([("denied", "policy")], []), decision
        assert why in (result.tool_calls[0].reason or "")


@pytest.mark.parametrize("limit", LIMITS)
async def test_there_a_person_is_asked_and_a_denial_of_the_script_counts(stages: Stages, limit: str) -> None:
    stage = await stages([calls(ONE, NINE), say("ok")], **LIMITS[limit][0])
    result = await stage.run("Go", YES, script=(approve(), deny("No.")))
    assert outcomes(result) == [("success", "user"), ("denied", "script")]


A, B = call("run_python", code="a"), call("run_python", code="b")


async def recording(stages: Stages, path: Path, *turns: ScriptedTurn) -> Stage:
    """A stage whose runs are recorded."""
    return await stages(record(path, ScriptedModel([*turns, say("Done.")])))


def played(path: Path) -> RecordedModel:
    return RecordedModel(load(path), name="replay:run.jsonl")


async def test_decisions_of_a_recording_replay_with_and_without_a_person(stages: Stages, tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    turn = calls(A, A, B, call("look"))
    tools = (RUN_PYTHON, LOOK, ASK_USER)
    stage = await recording(stages, path, turn, call("ask_user", question="Which?"))
    handle = await stage.start("Clean up", tools=tools)
    denial = Decision(approved=False, reason="Once is enough.")
    decisions = [YES, denial, Decision(approved=True, edited_input={"code": "c"})]
    for number in (3, 2, 1):  # they are written in the order of the calls
        await stage.decide(decisions[number - 1], number)
    asked = await stage.until(lambda: [one for one in stage.of(ToolStartEvent) if one.tool_name == "ask_user"])
    await stage.conversation.tool_result(asked[0].tool_call_id, "The first.")
    assert (await handle.wait()).run.status == "complete"
    for attended in (True, False):
        model = played(path)
        stage = await stages(model, attended=attended)
        script = () if attended else model.scripted_decisions("Clean up")
        result = await stage.run("Clean up", tools=tools, script=script)
        assert result.run.error is None
        assert [one.state for one in result.tool_calls] == ["success", "denied", *["success"] * 3]
        assert [one.decided_by for one in result.tool_calls] == [*["a recording"] * 3, None, "a recording"]
        assert result.tool_calls[-1].result == "The first."
        assert [ran.arguments_json for ran in stage.executor.ran] == ['{"code":"a"}', '{"code":"c"}', "{}"]


KEY = "sk-abcdef0123456789abcdef"


@pytest.mark.parametrize("attended", [True, False])
async def test_a_call_whose_arguments_had_a_key_replays_and_no_other_is_approved(
    stages: Stages, tmp_path: Path, attended: bool
) -> None:
    path, code, shown = tmp_path / "run.jsonl", f"connect('{KEY}', 'b')", "connect('[API key]', 'b')"
    stage = await recording(stages, path, call("run_python", code=code))
    await stage.run("Connect", YES)
    assert [json.loads(ran.arguments_json)["code"] for ran in stage.executor.ran] == [code]
    assert KEY not in path.read_text()
    player = played(path)
    (decided,) = load(path).decisions
    # What was approved is in the file as a digest only of what the file shows.
    assert (decided.arguments, decided.digest) == ({"code": shown}, digest(canonical({"code": shown})))

    stage = await stages(player, attended=attended)
    result = await stage.run("Connect", script=() if attended else player.scripted_decisions("Connect"))
    assert [(one.state, one.decided_by) for one in result.tool_calls] == [("success", "a recording")]
    assert [json.loads(ran.arguments_json)["code"] for ran in stage.executor.ran] == [shown]

    for other in ("connect('[API key]', 'c')", code, f"connect('{KEY[:-1]}0', 'b')"):
        stage = await stages([call("run_python", code=other), say("Done.")], attended=False)
        result = await stage.run("Connect", script=player.scripted_decisions("Connect"))
        assert [one.state for one in result.tool_calls] == ["denied"], other


async def recorded_with_a_rule(stages: Stages, path: Path) -> RecordedModel:
    """Two steps, and a decision on the second alone: a rule of the notebook allowed the first."""
    stage = await recording(stages, path, A, B)
    denial = Decision(approved=False, reason="Not b.")
    assert (await stage.run("Go", denial, rules=('allow run_python where code is "a"',))).run.status == "complete"
    return played(path)


async def test_a_call_that_the_recording_does_not_cover_is_left_to_the_person(stages: Stages, tmp_path: Path) -> None:
    stage = await stages(await recorded_with_a_rule(stages, tmp_path / "run.jsonl"))
    handle, [request] = await stage.asking()
    assert request.tool_input == '{"code":"a"}'
    (notice,) = stage.of(RunEvent)[-1].run.notices
    assert notice.content.startswith("You are asked. The recording has no decision on this call.\nrecorded: ")
    assert 'actual:   run_python {"code":"a"}' in notice.content
    await stage.approve(request, decided_by="ana")
    result = await handle.wait()
    assert result.run.error is None
    assert [(one.state, one.decided_by) for one in result.tool_calls] == [("success", "ana"), ("denied", "a recording")]


async def test_a_run_of_a_recording_goes_on_with_its_decisions_after_a_restart(stages: Stages, tmp_path: Path) -> None:
    model = await recorded_with_a_rule(stages, tmp_path / "run.jsonl")
    before = await stages(model, path=tmp_path / "log.sqlite")
    await before.asking()
    async with second_life(before, model=played(tmp_path / "run.jsonl")) as again:
        await again.approve()
        result = await again.handles[0].wait()
    assert result.run.error is None
    told = [(one.state, one.by, one.decided_by) for one in result.tool_calls]
    assert told == [("success", "user", None), ("denied", "script", "a recording")]
    assert [ran.arguments_json for ran in again.executor.ran] == ['{"code":"a"}']


async def test_what_policy_denies_stays_denied_and_what_it_allows_uses_no_decision(stages: Stages) -> None:
    result = await run(await stages([calls(NINE, call("look"), ONE), say("ok")]), approve(), rules=DENY_NINE)
    assert outcomes(result) == [("denied", "policy"), ("success", "policy"), ("success", "script")]


async def test_a_later_prompt_does_not_inherit_the_script(stages: Stages) -> None:
    stage = await stages([say("1"), ONE, say("2")])
    await run(stage, approve())
    await stage.conversation.send_message("And now?")
    await stage.deny()
    await stage.until(lambda: len([e for e in stage.events if e.type == "complete"]) == 2)


@pytest.mark.parametrize(("new", "rules"), [({"cod": "1"}, ()), (X9, DENY_NINE)])
async def test_an_edit_that_does_not_fit_or_is_denied_runs_nothing(
    stages: Stages, new: dict[str, Any], rules: tuple[str, ...]
) -> None:
    stage = await stages([ONE, say("ok")])
    result = await run(stage, edit(new, "run_python"), rules=rules)
    assert (outcomes(result), stage.executor.ran) == ([("denied", "policy")], [])
    assert "The script's edit of this call was refused." in (result.tool_calls[0].reason or "")
