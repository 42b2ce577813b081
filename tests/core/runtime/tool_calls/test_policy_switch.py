"""A person switches the policy of a conversation while it goes on."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agent_kernel.protocol.calls import ApprovedCall, ToolVerdict
from agent_kernel.protocol.commands import Decision
from agent_kernel.protocol.events import ApprovalResponseEvent, CompleteEvent, PolicyEvent, ToolCompleteEvent
from agent_kernel.testing import call, calls, say
from agent_kernel.tools.builtin.declarations import BUILTIN_TOOLS
from tests.core.runtime.runtime_fixtures import (
    LOOK,
    NO,
    RUN_PYTHON,
    YES,
    FunctionExecutor,
    Stage,
    Stages,
    second_life,
    states,
)

A, B = (call("run_python", code=name, call_id=name) for name in "ab")


async def switches(stage: Stage) -> list[dict[str, Any]]:
    return [entry for entry in await stage.audit() if entry["kind"] == "policy"]


async def test_the_next_call_is_not_asked_about_and_the_one_on_screen_still_is(stages: Stages) -> None:
    stage = await stages([A, B, say("done")])
    handle, _ = await stage.asking()
    switched = await stage.conversation.switch_policy("allow", decided_by="ana")
    assert (switched.before, switched.mode, switched.waiting) == ("ask", "allow", 1)
    assert stage.executor.ran == []
    await stage.approve()
    result = await handle.wait()
    assert [one.by for one in result.tool_calls] == ["user", "policy"]
    assert result.run.policy.mode == "allow"
    assert [notice.content for notice in result.run.notices] == ["The policy was switched by ana: from ask to allow."]
    [entry], [event] = await switches(stage), stage.of(PolicyEvent)
    assert (entry["before"], entry["after"], entry["decided_by"]) == ("ask", "allow", "ana")
    assert (event.before, event.mode, event.decided_by) == ("ask", "allow", "ana")


async def test_a_switch_that_is_to_decide_what_waits_approves_what_the_new_mode_allows(stages: Stages) -> None:
    turn = calls(A, call("write_file", call_id="w", path="a.csv", content="1"))
    stage = await stages([turn, say("done")], executor=FunctionExecutor(edits=True))
    handle, _ = await stage.asking(2, tools=BUILTIN_TOOLS)
    for mode, waiting in (("edit", 1), ("edit", 1), ("allow", 0)):
        switched = await stage.conversation.switch_policy(mode, decide_waiting=True)
        assert (switched.mode, switched.waiting) == (mode, waiting)
    assert [(one.state, one.by) for one in (await handle.wait()).tool_calls] == [("success", "policy")] * 2
    noted = [(one["before"], one["after"], one["decide_waiting"]) for one in await switches(stage)]
    assert (noted[0], noted[-1]) == (("ask", "edit", True), ("edit", "allow", True))


async def test_a_stricter_policy_denies_the_calls_that_wait_and_the_model_hears_of_it(stages: Stages) -> None:
    reason = "Plan only: reads, never acts."
    stage = await stages([calls(A, B), say("done")])
    handle, _ = await stage.asking(2)
    assert (await stage.conversation.switch_policy("plan")).waiting == 0
    ended = (await handle.wait()).tool_calls

    assert [(one.state, one.by, one.reason) for one in ended] == [("denied", "policy", reason)] * 2
    assert [reason in text for text in stage.told()] == [True, True]
    assert stage.executor.ran == []


async def test_a_call_that_was_approved_and_has_not_started_is_judged_by_the_stricter_policy(stages: Stages) -> None:
    async def tighten(ran: ApprovedCall, _: Any) -> str:
        await stage.until(lambda: len(stage.of(ApprovalResponseEvent)) == 2)
        await stage.conversation.switch_policy("deny")
        return "ok"

    stage = await stages([calls(A, B), say("done")], executor=FunctionExecutor(tighten))
    assert states(await stage.run("Go", YES, YES)) == {"a": "success", "b": "denied"}
    assert [ran.tool_call_id for ran in stage.executor.ran] == ["a"]


@pytest.mark.parametrize("delay", [0, 2, 5])
async def test_an_approval_in_the_same_moment_never_starts_a_call_after_the_switch_is_in_the_log(
    stages: Stages, delay: int
) -> None:
    stage = await stages([A, say("done")])
    handle, [request] = await stage.asking()

    async def tighten() -> None:
        for _ in range(delay):
            await asyncio.sleep(0)
        await stage.conversation.switch_policy("deny")

    await asyncio.gather(stage.approve(request), tighten(), return_exceptions=True)
    await handle.wait()
    await stage.until(lambda: stage.of(CompleteEvent))
    order = [event.type for event in stage.events if event.type in ("policy", "tool_start")]
    assert order in (["tool_start", "policy"], ["policy"])
    assert len(stage.executor.ran) == order.count("tool_start")


async def test_the_switch_outlives_the_server(stages: Stages, tmp_path: Path) -> None:
    before = await stages([A], path=tmp_path / "log.sqlite")
    await before.asking(policy="ask")
    await before.conversation.switch_policy("allow")
    async with second_life(before, B, say("done")) as again:
        assert [one.state for one in await again.calls()] == ["awaiting_approval"]
        await again.approve()
        assert [one.by for one in (await again.handles[0].wait()).tool_calls] == ["user", "policy"]


async def test_a_tools_own_word_that_comes_late_is_weighed_by_the_policy_of_then(stages: Stages) -> None:
    class Slow(FunctionExecutor):
        async def tool_verdict(self, tool_name: str, arguments_json: str) -> Any:
            await stage.conversation.switch_policy("deny")
            return ToolVerdict("allow")

    own = replace(LOOK, name="own", approval="dynamic", read_only=False)
    stage = await stages([call("own", call_id="a"), say("done")], executor=Slow())
    assert states(await stage.run(tools=(own,), policy="allow")) == {"a": "denied"}
    assert stage.executor.ran == []


async def test_a_rule_that_is_saved_under_allow_approves_no_other_call_that_waits(stages: Stages) -> None:
    stage = await stages([calls(A, call("other", call_id="b")), say("done")])
    other = replace(LOOK, name="other", approval="ask", read_only=False)
    handle, [first, second] = await stage.asking(2, tools=(RUN_PYTHON, other))
    await stage.conversation.switch_policy("allow")
    await stage.decide(Decision(approved=True, scope="conversation"), first)
    await stage.until(lambda: stage.of(ToolCompleteEvent))
    [waiting] = await stage.runtime.list_calls("awaiting_approval")
    assert waiting.approval_id == second.approval_id
    await stage.approve(second)
    await handle.wait()


async def test_later_prompts_that_name_no_policy_have_it_too_and_one_that_names_its_own_does_not(
    stages: Stages,
) -> None:
    stage = await stages([say("1"), say("2"), A, say("3")])
    await stage.run()
    assert (await stage.conversation.switch_policy("allow")).run_id is None
    assert (await stage.run()).run.policy.mode == "allow"
    assert (await stage.run("Go", NO, policy="ask")).run.policy.mode == "ask"
