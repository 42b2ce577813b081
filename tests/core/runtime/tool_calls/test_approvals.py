"""What a person sees of approvals, at the level of the runtime: real log, real graph, scripted model."""

import asyncio
import json
from typing import Any

import pytest

from agent_kernel.errors import AlreadyDecided, InvalidArguments
from agent_kernel.models.base import ModelTurn
from agent_kernel.protocol.calls import ApprovedCall, Place, ToolVerdict
from agent_kernel.protocol.commands import Decision
from agent_kernel.protocol.events import TokenEvent, ToolCompleteEvent, ToolStartEvent
from agent_kernel.protocol.file_cards import FileCard
from agent_kernel.testing import call, calls, requested, say
from agent_kernel.tools.builtin.declarations import BUILTIN_TOOLS
from agent_kernel.tools.executor import OutputSink
from tests.core.runtime.runtime_fixtures import RUN_PYTHON, YES, FunctionExecutor, Stages, states

ONE = call("run_python", code="1", call_id="a")
TWO = calls(ONE, call("run_python", code="2", call_id="b"))
WRITE_FILE = next(tool for tool in BUILTIN_TOOLS if tool.name == "write_file")


async def test_an_approved_call_runs_and_its_result_flows_back_to_the_model(stages: Stages) -> None:
    stage = await stages([ONE, say("It is 1.")], executor=FunctionExecutor(lambda call, emit: "1"))
    handle, [request] = await stage.asking()
    assert (request.tool_call_id, request.tool_input, stage.executor.ran) == ("a", '{"code":"1"}', [])
    await stage.approve(decided_by="ana")
    result = await handle.wait()
    assert (result.text, result.run.status) == ("It is 1.", "complete")
    assert [(one.state, one.decided_by) for one in result.tool_calls] == [("success", "ana")]
    *_, asked, told = stage.model.requests[-1].messages
    assert asked["tool_calls"][0]["id"] == "a"
    assert told == {"role": "tool", "tool_call_id": "a", "content": "1"}


async def test_a_denial_carries_the_reason_to_the_model_and_the_turn_goes_on(stages: Stages) -> None:
    stage = await stages([ONE, say("Then I leave it.")])
    result = await stage.run("Go", Decision(approved=False, reason="Keep the raw table."))
    assert (result.run.status, stage.executor.ran) == ("complete", [])
    assert stage.told()[0].startswith("Denied by the user. Reason: Keep the raw table. Nothing ran.")
    assert [(one.state, one.reason) for one in result.tool_calls] == [("denied", "Keep the raw table.")]


async def test_what_runs_after_an_edit_is_the_edited_call_and_the_model_is_told(stages: Stages) -> None:
    stage = await stages([ONE, say("Fine.")])
    handle, [request] = await stage.asking(rules=('deny run_python where code is "drop()"',))
    with pytest.raises(InvalidArguments, match="The changed call can't be approved"):
        await stage.decide(Decision(approved=True, edited_input={"code": "drop()"}))
    assert [one.state for one in await stage.calls()] == ["awaiting_approval"]
    edit = Decision(approved=True, edited_input={"code": "copy()"})
    decided = await stage.conversation.route_decision(request.approval_id, edit)
    await handle.wait()
    assert (decided.edited, decided.digest != request.digest) == (True, True)
    assert [ran.arguments_json for ran in stage.executor.ran] == ['{"code":"copy()"}']
    [told] = stage.told()
    assert told.startswith('The user changed the arguments before approving. What ran: {"code":"copy()"}')
    assert stage.of(ToolStartEvent)[0].tool_input == '{"code":"copy()"}'


async def test_the_first_decision_wins_and_the_second_hears_of_it(stages: Stages) -> None:
    stage = await stages([ONE, say("ok")])
    handle, [request] = await stage.asking()
    decide = stage.conversation.route_decision
    decisions = [(Decision(approved=number % 2 == 0), f"tab {number}") for number in range(8)]
    decided = (decide(request.approval_id, decision, decided_by=tab) for decision, tab in decisions)
    answers = await asyncio.gather(*decided, return_exceptions=True)
    await handle.wait()
    [first] = [answer for answer in answers if not isinstance(answer, BaseException)]
    late = [answer.first["decided_by"] for answer in answers if isinstance(answer, AlreadyDecided)]
    assert late == [first.decided_by] * 7
    assert len(stage.executor.ran) == (1 if first.state == "approved" else 0)


async def test_an_approved_call_starts_while_its_sibling_still_waits_and_the_model_hears_of_both_in_order(
    stages: Stages,
) -> None:
    stage = await stages([TWO, say("done")])
    handle, [first, second] = await stage.asking(2)
    await stage.approve(second)
    await stage.until(lambda: stage.of(ToolCompleteEvent))
    assert [ran.tool_call_id for ran in stage.executor.ran] == ["b"]
    assert len(stage.model.requests) == 1, "the model must not be asked before every call has its outcome"
    await stage.deny(first)
    await handle.wait()
    told = [one["tool_call_id"] for one in stage.model.requests[-1].messages if one["role"] == "tool"]
    assert (told, stage.roles()) == (["a", "b"], ["system", "user", "assistant", "tool", "tool"])


async def test_calls_that_touch_the_kernel_run_one_at_a_time(stages: Stages) -> None:
    running: list[str] = []

    async def act(call: Any, emit: Any) -> str:
        assert running == []
        running.append(call.tool_call_id)
        await asyncio.sleep(0.01)
        running.remove(call.tool_call_id)
        return "ok"

    turn = calls(*(call("run_python", code=str(n)) for n in range(5)))
    stage = await stages([turn, say("done")], executor=FunctionExecutor(act))
    assert list(states(await stage.run(policy="allow")).values()) == ["success"] * 5


async def test_a_call_that_was_judged_while_another_ran_is_judged_again_when_it_starts(stages: Stages) -> None:
    """Both write unasked as they are judged; what the first writes makes the second one that asks."""
    judged, ended = asyncio.Event(), asyncio.Event()

    class Folder(FunctionExecutor):
        async def tool_verdict(self, tool_name: str, arguments_json: str) -> ToolVerdict:
            self.edits = not ended.is_set()
            return await super().tool_verdict(tool_name, arguments_json)

        async def preview(self, tool_name: str, arguments_json: str, place: Place | None) -> FileCard | None:
            if "second" in arguments_json:  # it was judged: now the first call ends
                judged.set()
                await ended.wait()
            return None

    async def act(ran: ApprovedCall, _emit: OutputSink) -> str:
        await judged.wait()
        return "written"

    turn = calls(*(call("write_file", path=f"{name}.csv", content="1") for name in ("first", "second")))
    stage = await stages([turn, say("done")], executor=Folder(act))
    handle = await stage.start(policy="edit", tools=(WRITE_FILE, RUN_PYTHON))
    await stage.until(lambda: stage.of(ToolCompleteEvent))
    ended.set()
    assert [one.state for one in (await handle.wait()).tool_calls] == ["success", "denied"]
    assert [json.loads(ran.arguments_json)["path"] for ran in stage.executor.ran] == ["first.csv"]


async def test_with_nobody_there_a_call_is_denied_with_a_clear_reason(stages: Stages) -> None:
    stage = await stages([ONE, say("ok")], attended=False)
    result = await stage.run()
    assert stage.executor.ran == []
    assert result.tool_calls[0].reason == "Nobody was there to ask: this notebook ran without a page."


async def test_an_unknown_tool_and_invalid_arguments_become_errors_the_model_can_act_on(stages: Stages) -> None:
    odd: list[Any] = [("fly", {}), ("run_python", {"cod": "1"}), ("run_python", '{"code": "1')]
    turn = ModelTurn("", tool_calls=tuple(requested(*one, call_id=name) for name, one in zip("abc", odd, strict=True)))
    stage = await stages([turn, say("sorry")])
    assert list(states(await stage.run()).values()) == ["invalid"] * 3
    told = stage.told()
    assert all(content.startswith("Error: this call is not valid and did not run.") for content in told)
    assert "run_python, look" in told[0]
    assert "code" in told[1]
    assert [event.state for event in stage.of(ToolCompleteEvent)] == ["invalid"] * 3


REFUSED = """
CREATE TEMP TRIGGER refused BEFORE UPDATE ON tool_calls WHEN NEW.state = 'success'
BEGIN SELECT raise(ABORT, 'refused'); END
"""


async def test_a_model_is_not_told_of_an_outcome_that_is_not_in_the_log(stages: Stages) -> None:
    stage = await stages([ONE, say("Let me see.")])
    await stage.log.read(lambda sql: sql.execute(REFUSED) and None)
    broken = await stage.run(policy="allow")
    assert [ran.tool_call_id for ran in stage.executor.ran] == ["a"]
    assert (broken.run.status, broken.text, states(broken)) == ("error", "", {"a": "unknown"})
    assert not stage.of(TokenEvent)
    await stage.run("And now?")
    assert stage.roles() == ["system", "user", "assistant", "tool", "user"]
    assert stage.told()[0].startswith("Outcome unknown.")


async def test_a_site_caps_what_a_notebook_may_choose(stages: Stages) -> None:
    stage = await stages([ONE, say("ok")], policy_cap="ask")
    result = await stage.run("Go", YES, policy="allow", rules=("allow *",))
    assert (result.run.policy.mode, result.tool_calls[0].by) == ("ask", "user")
