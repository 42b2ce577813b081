"""A person switches the policy of a conversation while it goes on."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from agent_kernel.errors import InvalidArguments
from agent_kernel.protocol.calls import ApprovedCall, ToolVerdict
from agent_kernel.protocol.commands import Decision
from agent_kernel.protocol.events import ApprovalResponseEvent, CompleteEvent, PolicyEvent, ToolCompleteEvent
from agent_kernel.protocol.vocabulary import PolicyMode
from agent_kernel.testing import ScriptedModel, call, calls, say
from agent_kernel.tools.builtin.declarations import BUILTIN_TOOLS
from tests.core.runtime.runtime_fixtures import LOOK, RUN_PYTHON, FunctionExecutor, Stage, Stages, second_life, stage

YES = Decision(approved=True)


async def switches(stage: Stage) -> list[dict[str, Any]]:
    return [entry for entry in await stage.audit() if entry["kind"] == "policy"]


async def test_the_next_call_is_not_asked_about_and_the_one_on_screen_still_is(stages: Stages) -> None:
    turns = [call("run_python", code=name, call_id=name) for name in "ab"]
    stage = await stages([*turns, say("done")])
    handle = await stage.start()
    [request] = await stage.requests()
    switched = await stage.conversation.switch_policy("allow", decided_by="ana")
    assert (switched.before, switched.mode, switched.waiting) == ("ask", "allow", 1)
    assert stage.executor.ran == []
    await stage.conversation.route_decision(request.approval_id, YES)
    result = await handle.wait()
    [entry] = await switches(stage)
    assert [c.by for c in result.tool_calls] == ["user", "policy"]
    assert result.run.policy.mode == "allow"
    assert [notice.content for notice in result.run.notices] == ["The policy was switched by ana: from ask to allow."]
    assert (entry["before"], entry["after"], entry["decided_by"]) == ("ask", "allow", "ana")
    [event] = stage.of(PolicyEvent)
    assert (event.before, event.mode, event.decided_by) == ("ask", "allow", "ana")


async def test_a_switch_that_is_to_decide_what_waits_approves_what_the_new_mode_allows(stages: Stages) -> None:
    turn = calls(call("run_python", code="1", call_id="p"), call("write_file", call_id="w", path="a.csv", content="1"))
    stage = await stages([turn, say("done")], executor=FunctionExecutor(edits=True))
    handle = await stage.start(tools=BUILTIN_TOOLS)
    await stage.requests(2)
    edits = await stage.conversation.switch_policy("edit", decided_by="ana", decide_waiting=True)
    assert (edits.mode, edits.waiting) == ("edit", 1)
    same = await stage.conversation.switch_policy("edit", decide_waiting=True)
    assert same.waiting == 1
    await stage.conversation.switch_policy("allow", decide_waiting=True)
    result = await handle.wait()
    entries = await switches(stage)
    assert [(c.state, c.by) for c in result.tool_calls] == [("success", "policy")] * 2
    assert [(one["before"], one["after"], one["decide_waiting"]) for one in entries][::2] == [
        ("ask", "edit", True),
        ("edit", "allow", True),
    ]


@pytest.mark.parametrize(("cap", "mode"), [("ask", "edit"), ("plan", "ask")])
async def test_nobody_switches_above_what_the_site_allows(stages: Stages, cap: PolicyMode, mode: PolicyMode) -> None:
    stage = await stages(ScriptedModel([call("run_python", code="1"), say("done")]), policy_cap=cap)
    handle = await stage.start()
    with pytest.raises(InvalidArguments, match=f"This site allows {cap} at most"):
        await stage.conversation.switch_policy(mode)
    await stage.conversation.cancel_run(handle.run_id)
    result = await handle.wait()
    assert await switches(stage) == []
    assert (result.run.policy.mode, result.run.policy.cap) == (cap, cap)


@pytest.mark.parametrize(
    ("mode", "reason"),
    [("deny", "The policy of this run denies every action."), ("plan", "Plan only: reads, never acts.")],
)
async def test_a_stricter_policy_denies_the_calls_that_wait_and_the_model_hears_of_it(
    stages: Stages, mode: PolicyMode, reason: str
) -> None:
    turn = calls(*(call("run_python", code=name, call_id=name) for name in "ab"))
    stage = await stages([turn, say("done")])
    handle = await stage.start()
    await stage.requests(2)
    assert (await stage.conversation.switch_policy(mode)).waiting == 0
    result = await handle.wait()
    assert [(c.state, c.by, c.reason) for c in result.tool_calls] == [("denied", "policy", reason)] * 2
    told = [m["content"] for m in stage.model.requests[-1].messages if m["role"] == "tool"]
    assert [reason in text for text in told] == [True, True]
    assert stage.executor.ran == []


async def test_a_call_that_was_approved_and_has_not_started_is_judged_by_the_stricter_policy(stages: Stages) -> None:
    turn = calls(*(call("run_python", code=name, call_id=name) for name in "ab"))
    stage = await stages([turn, say("done")], executor=FunctionExecutor())

    async def tighten(ran: ApprovedCall, _: Any) -> str:
        await stage.until(lambda: len(stage.of(ApprovalResponseEvent)) == 2)
        await stage.conversation.switch_policy("deny")
        return "ok"

    stage.executor.act = tighten
    handle = await stage.start()
    for request in await stage.requests(2):
        await stage.conversation.route_decision(request.approval_id, YES)
    result = await handle.wait()
    assert [ran.tool_call_id for ran in stage.executor.ran] == ["a"]
    assert [c.state for c in result.tool_calls] == ["success", "denied"]


@pytest.mark.parametrize("delay", [0, 2, 5])
async def test_an_approval_in_the_same_moment_never_starts_a_call_after_the_switch_is_in_the_log(
    stages: Stages, delay: int
) -> None:
    stage = await stages([call("run_python", code="1", call_id="a"), say("done")])
    handle = await stage.start()
    [request] = await stage.requests()

    async def tighten() -> None:
        for _ in range(delay):
            await asyncio.sleep(0)
        await stage.conversation.switch_policy("deny")

    await asyncio.gather(stage.conversation.route_decision(request.approval_id, YES), tighten(), return_exceptions=True)
    await handle.wait()
    await stage.until(lambda: stage.of(CompleteEvent))
    order = [event.type for event in stage.events if event.type in ("policy", "tool_start")]
    assert order in (["tool_start", "policy"], ["policy"])
    assert len(stage.executor.ran) == order.count("tool_start")


async def test_a_tools_own_word_that_comes_late_is_weighed_by_the_policy_of_then(stages: Stages) -> None:
    asked, go_on = asyncio.Event(), asyncio.Event()

    class Slow(FunctionExecutor):
        async def tool_verdict(self, tool_name: str, arguments_json: str) -> Any:
            asked.set()
            await go_on.wait()
            return ToolVerdict("allow")

    dynamic = RUN_PYTHON.__class__("own", "Own.", {"type": "object", "properties": {}}, approval="dynamic")
    stage = await stages([call("own"), say("done")], executor=Slow())
    handle = await stage.start(tools=(dynamic,), policy="allow")
    await asked.wait()
    await stage.conversation.switch_policy("deny")
    go_on.set()
    result = await handle.wait()
    assert [c.state for c in result.tool_calls] == ["denied"]
    assert stage.executor.ran == []


async def test_a_rule_that_is_saved_under_allow_approves_no_other_call_that_waits(stages: Stages) -> None:
    turn = calls(call("run_python", code="1", call_id="a"), call("other", call_id="b"))
    other = LOOK.__class__("other", "Other.", {"type": "object", "properties": {}})
    stage = await stages([turn, say("done")])
    handle = await stage.start(tools=(RUN_PYTHON, other))
    first, second = await stage.requests(2)
    await stage.conversation.switch_policy("allow")
    await stage.conversation.route_decision(first.approval_id, Decision(approved=True, scope="conversation"))
    await stage.until(lambda: stage.of(ToolCompleteEvent))
    [waiting] = await stage.runtime.list_calls("awaiting_approval")
    assert waiting.approval_id == second.approval_id
    await stage.conversation.route_decision(second.approval_id, YES)
    await handle.wait()


async def test_the_switch_outlives_the_server(tmp_path: Path) -> None:
    turns = [call("run_python", code=name, call_id=name) for name in "ab"]
    with ScriptedModel([*turns, say("done")]) as model:
        before = await stage(model, tmp_path / "log.sqlite")
        await before.start(policy="ask")
        [request] = await before.requests()
        await before.conversation.switch_policy("allow")
        async with second_life(tmp_path / "log.sqlite", model, before, before.executor) as (conversation, [handle]):
            assert [one.state for one in (await conversation.view()).tool_calls] == ["awaiting_approval"]
            await conversation.route_decision(request.approval_id, YES)
            result = await handle.wait()
    assert [c.by for c in result.tool_calls] == ["user", "policy"]


async def test_later_prompts_that_name_no_policy_have_it_too_and_one_that_names_its_own_does_not(
    stages: Stages,
) -> None:
    stage = await stages([say("1"), say("2"), call("run_python", code="1"), say("3")])
    await stage.run()
    assert (await stage.conversation.switch_policy("allow")).run_id is None
    unnamed = await stage.run()
    assert unnamed.run.policy.mode == "allow"
    handle = await stage.start(policy="ask")
    await stage.deny()
    assert (await handle.wait()).run.policy.mode == "ask"
