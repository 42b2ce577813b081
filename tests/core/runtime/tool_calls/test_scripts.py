"""Runs with a script: real log, real graph, scripted model."""

from typing import Any

import pytest

from agent_kernel.approvals.folder_file import FolderLimits, FolderRule
from agent_kernel.approvals.scripted import ScriptedDecision, answer, approve, deny, edit
from agent_kernel.protocol.runs import RunResult
from agent_kernel.testing import call, calls, say
from agent_kernel.tools.arguments import canonical, digest
from tests.core.runtime.runtime_fixtures import ASK_USER, LOOK, RUN_PYTHON, YES, Stage, Stages

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


async def test_an_edit_of_the_script_runs_in_place_of_the_call(stages: Stages) -> None:
    stage = await stages([ONE, say("ok")])
    result = await run(stage, edit(X9, "run_python"))
    assert [ran.arguments_json for ran in stage.executor.ran] == [canonical(X9)]
    assert (result.tool_calls[0].edited, result.tool_calls[0].by) == (True, "script")
    assert "The user changed the arguments" in stage.told()[0]


@pytest.mark.parametrize(("new", "rules"), [({"cod": "1"}, ()), (X9, DENY_NINE)])
async def test_an_edit_that_does_not_fit_or_is_denied_runs_nothing(
    stages: Stages, new: dict[str, Any], rules: tuple[str, ...]
) -> None:
    stage = await stages([ONE, say("ok")])
    result = await run(stage, edit(new, "run_python"), rules=rules)
    assert (outcomes(result), stage.executor.ran) == ([("denied", "policy")], [])
    assert "The script's edit of this call was refused." in (result.tool_calls[0].reason or "")


@pytest.mark.parametrize("attended", [True, False])
async def test_a_question_is_answered_by_the_script_or_not_at_all(stages: Stages, attended: bool) -> None:
    asked = call("ask_user", question="Which?")
    result = await run(await stages([asked, asked, say("ok")], attended=attended), answer("The first."))
    assert outcomes(result) == [("success", "script"), ("denied", "policy")]
    assert result.tool_calls[0].result == "The first."


async def test_what_policy_denies_stays_denied_and_what_it_allows_uses_no_decision(stages: Stages) -> None:
    result = await run(await stages([calls(NINE, call("look"), ONE), say("ok")]), approve(), rules=DENY_NINE)
    assert outcomes(result) == [("denied", "policy"), ("success", "policy"), ("success", "script")]


FILE = ".agent-kernel.toml"
LIMITS: dict[str, tuple[dict[str, Any], str]] = {
    "a site's cap": ({"policy_cap": "ask"}, "This site allows ask at most"),
    "a site's rule": ({"site_rules": ("ask run_python",)}, "The rule `ask run_python` of the site asks"),
    "a folder's mode": ({"read_limits": lambda _: FolderLimits((FILE,), mode="ask")}, "at most"),
    "a folder's rule": (
        {"read_limits": lambda _: FolderLimits(rules=(FolderRule("ask run_python", FILE),))},
        "of the folder asks",
    ),
    "a broken file": ({"read_limits": lambda _: FolderLimits((FILE,), closed=True)}, "at most"),
}


@pytest.mark.parametrize("limit", LIMITS)
async def test_where_the_site_or_the_folder_asks_a_script_approves_nothing(stages: Stages, limit: str) -> None:
    settings, why = LIMITS[limit]
    for decision in (approve(), recorded(True, X1), edit(X9, "run_python")):
        stage = await stages([ONE, say("ok")], attended=False, **settings)
        result = await run(stage, decision)
        assert (outcomes(result), stage.executor.ran) == ([("denied", "policy")], []), decision
        assert why in (result.tool_calls[0].reason or "")


@pytest.mark.parametrize("limit", ["a site's cap", "a folder's rule"])
async def test_there_a_person_is_asked_and_a_denial_of_the_script_counts(stages: Stages, limit: str) -> None:
    stage = await stages([calls(ONE, NINE), say("ok")], **LIMITS[limit][0])
    result = await stage.run("Go", YES, script=(approve(), deny("No.")))
    assert outcomes(result) == [("success", "user"), ("denied", "script")]


async def test_a_later_prompt_does_not_inherit_the_script(stages: Stages) -> None:
    stage = await stages([say("1"), ONE, say("2")])
    await run(stage, approve())
    await stage.conversation.send_message("And now?")
    await stage.deny()
    await stage.until(lambda: len([e for e in stage.events if e.type == "complete"]) == 2)
