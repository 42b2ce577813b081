"""Runs with a script: real log, real graph, scripted model."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from agent_kernel.approvals.folder_file import FolderLimits, FolderRule
from agent_kernel.approvals.scripted import ScriptedDecision, answer, approve, deny, edit
from agent_kernel.protocol.commands import Decision
from agent_kernel.protocol.runs import RunResult
from agent_kernel.testing import ScriptedModel, call, calls, say
from agent_kernel.tools.arguments import canonical, digest
from agent_kernel.tools.builtin.declarations import BUILTIN_TOOLS
from tests.core.runtime.runtime_fixtures import LOOK, RUN_PYTHON, Stage, Stages

ASK_USER = next(tool for tool in BUILTIN_TOOLS if tool.name == "ask_user")
X1, X9 = {"code": "x = 1"}, {"code": "x = 9"}


def digest_of(arguments: dict[str, Any]) -> str:
    return digest(canonical(arguments))


def recorded(approved: bool, arguments: dict[str, Any], **more: Any) -> ScriptedDecision:
    return ScriptedDecision(
        approved, "run_python", arguments=arguments, digest=digest_of(arguments), recorded=True, **more
    )


async def run(stage: Stage, script: Sequence[ScriptedDecision], **spec: Any) -> RunResult:
    async with asyncio.timeout(60):
        handle = await stage.start(script=tuple(script), tools=(RUN_PYTHON, LOOK, ASK_USER), **spec)
        return await handle.wait()


def outcomes(result: RunResult) -> list[tuple[str, str | None]]:
    return [(one.state, one.by) for one in result.tool_calls]


@pytest.mark.parametrize("attended", [True, False])
async def test_a_script_decides_at_once_also_where_a_person_is_there(stages: Stages, attended: bool) -> None:
    turn = calls(call("run_python", **X1), call("run_python", **X9))
    stage = await stages([turn, say("ok")], attended=attended)
    result = await run(stage, [approve("run_python", X1), deny("Not nine.", "run_python")])
    assert outcomes(result) == [("success", "script"), ("denied", "script")]
    assert [ran.arguments_json for ran in stage.executor.ran] == [canonical(X1)]
    denial = stage.model.requests[-1].messages[-1]["content"]
    assert denial.startswith("Denied by the user. Reason: Not nine.")
    assert [entry["by"] for entry in await stage.audit() if entry.get("kind") == "decision"] == ["script", "script"]


@pytest.mark.parametrize("attended", [True, False])
async def test_a_call_that_the_script_does_not_cover_is_denied_and_both_are_shown(
    stages: Stages, attended: bool
) -> None:
    stage = await stages([call("run_python", **X9), say("ok")], attended=attended)
    result = await run(stage, [approve("run_python", X1)])
    assert outcomes(result) == [("denied", "policy")]
    reason = result.tool_calls[0].reason or ""
    assert 'scripted: run_python {"code":"x = 1"}\nactual:   run_python {"code":"x = 9"}' in reason
    assert reason in stage.model.requests[-1].messages[-1]["content"]
    assert stage.executor.ran == []


async def test_an_edit_of_the_script_runs_in_place_of_the_call(stages: Stages) -> None:
    stage = await stages([call("run_python", **X1), say("ok")])
    result = await run(stage, [edit(X9, "run_python")])
    assert [ran.arguments_json for ran in stage.executor.ran] == [canonical(X9)]
    assert (result.tool_calls[0].edited, result.tool_calls[0].by) == (True, "script")
    assert "The user changed the arguments" in stage.model.requests[-1].messages[-1]["content"]


@pytest.mark.parametrize(("new", "rules"), [({"cod": "1"}, ()), (X9, ('deny run_python where code is "x = 9"',))])
async def test_an_edit_that_does_not_fit_or_is_denied_runs_nothing(
    stages: Stages, new: dict[str, Any], rules: tuple[str, ...]
) -> None:
    stage = await stages([call("run_python", **X1), say("ok")])
    result = await run(stage, [edit(new, "run_python")], rules=rules)
    assert outcomes(result) == [("denied", "policy")]
    assert "The script's edit of this call was refused." in (result.tool_calls[0].reason or "")
    assert stage.executor.ran == []


@pytest.mark.parametrize("attended", [True, False])
async def test_a_question_is_answered_by_the_script_or_not_at_all(stages: Stages, attended: bool) -> None:
    asked = call("ask_user", question="Which?")
    with ScriptedModel([asked, asked, say("ok")]) as model:
        result = await run(await stages(model, attended=attended), [answer("The first.")])
    assert outcomes(result) == [("success", "script"), ("denied", "policy")]
    assert result.tool_calls[0].result == "The first."


async def test_what_policy_denies_stays_denied_and_what_it_allows_uses_no_decision(stages: Stages) -> None:
    turn = calls(call("run_python", **X9), call("look"), call("run_python", **X1))
    with ScriptedModel([turn, say("ok")]) as model:
        result = await run(await stages(model), [approve()], rules=('deny run_python where code is "x = 9"',))
    assert outcomes(result) == [("denied", "policy"), ("success", "policy"), ("success", "script")]


LIMITS: dict[str, tuple[dict[str, Any], str]] = {
    "a site's cap": ({"policy_cap": "ask"}, "This site allows ask at most"),
    "a site's rule": ({"site_rules": ("ask run_python",)}, "The rule `ask run_python` of the site asks"),
    "a folder's mode": ({"read_limits": lambda _: FolderLimits((".agent-kernel.toml",), mode="ask")}, "at most"),
    "a folder's rule": (
        {"read_limits": lambda _: FolderLimits(rules=(FolderRule("ask run_python", ".agent-kernel.toml"),))},
        "of the folder asks",
    ),
    "a broken file": ({"read_limits": lambda _: FolderLimits((".agent-kernel.toml",), closed=True)}, "at most"),
}


@pytest.mark.parametrize("limit", LIMITS)
async def test_where_the_site_or_the_folder_asks_a_script_approves_nothing(stages: Stages, limit: str) -> None:
    settings, why = LIMITS[limit]
    for decision in (approve(), recorded(True, X1), edit(X9, "run_python")):
        with ScriptedModel([call("run_python", **X1), say("ok")]) as model:
            stage = await stages(model, attended=False, **settings)
            result = await run(stage, [decision])
        assert outcomes(result) == [("denied", "policy")], decision
        assert why in (result.tool_calls[0].reason or "")
        assert stage.executor.ran == []


@pytest.mark.parametrize("limit", ["a site's cap", "a folder's rule"])
async def test_there_a_person_is_asked_and_a_denial_of_the_script_counts(stages: Stages, limit: str) -> None:
    settings, _ = LIMITS[limit]
    turn = calls(call("run_python", **X1), call("run_python", **X9))
    stage = await stages([turn, say("ok")], **settings)
    handle = await stage.start(script=(approve(), deny("No.")))
    [asked] = await stage.requests()
    await stage.until(lambda: [e for e in stage.events if getattr(e, "approved", None) is False])
    await stage.conversation.route_decision(asked.approval_id, Decision(approved=True))
    result = await handle.wait()
    assert outcomes(result) == [("success", "user"), ("denied", "script")]


async def test_a_later_prompt_does_not_inherit_the_script(stages: Stages) -> None:
    stage = await stages([say("1"), call("run_python", **X1), say("2")])
    await run(stage, [approve()])
    await stage.conversation.send_message("And now?")
    await stage.deny()
    await stage.until(lambda: len([e for e in stage.events if e.type == "complete"]) == 2)
