"""What a person sees of approvals, at the level of the runtime: real log, real graph, scripted model."""

import asyncio
import json
from typing import Any

import pytest

from agent_kernel.errors import AlreadyDecided, DigestMismatch
from agent_kernel.models.base import ModelRequest, ModelTurn
from agent_kernel.protocol.calls import ApprovedCall, Place, ToolVerdict
from agent_kernel.protocol.commands import Decision
from agent_kernel.protocol.events import TokenEvent, ToolCompleteEvent, ToolStartEvent
from agent_kernel.protocol.file_cards import FileCard
from agent_kernel.testing import call, calls, requested, say
from agent_kernel.tools.builtin.declarations import BUILTIN_TOOLS
from agent_kernel.tools.executor import OutputSink
from tests.core.runtime.runtime_fixtures import RUN_PYTHON, FunctionExecutor, Stages


def tool_messages(request: ModelRequest) -> list[Any]:
    return [message for message in request.messages if message["role"] == "tool"]


async def test_an_approved_call_runs_and_its_result_flows_back_to_the_model(stages: Stages) -> None:
    stage = await stages(
        [call("run_python", code="1 + 1", call_id="c1"), say("It is 2.")],
        executor=FunctionExecutor(lambda call, emit: "2"),
    )
    handle = await stage.start("What is 1 + 1?")
    [request] = await stage.requests()
    assert request.tool_call_id == "c1"
    assert request.tool_input == '{"code":"1 + 1"}'
    assert stage.executor.ran == []
    await stage.conversation.route_decision(request.approval_id, Decision(approved=True), decided_by="ana")
    result = await handle.wait()
    assert result.text == "It is 2."
    assert result.run.status == "complete"
    assert [c.state for c in result.tool_calls] == ["success"]
    assert result.tool_calls[0].decided_by == "ana"
    last = stage.model.requests[-1].messages
    assert last[-2]["tool_calls"][0]["id"] == "c1"
    assert last[-1] == {"role": "tool", "tool_call_id": "c1", "content": "2"}


async def test_a_denial_carries_the_reason_to_the_model_and_the_turn_goes_on(stages: Stages) -> None:
    stage = await stages([call("run_python", code="del df"), say("Then I leave it.")])
    handle = await stage.start()
    await stage.decide(Decision(approved=False, reason="Keep the raw table."))
    result = await handle.wait()
    assert result.run.status == "complete"
    assert stage.executor.ran == []
    content = tool_messages(stage.model.requests[-1])[0]["content"]
    assert content.startswith("Denied by the user. Reason: Keep the raw table. Nothing ran.")
    assert result.tool_calls[0].state == "denied"
    assert result.tool_calls[0].reason == "Keep the raw table."


async def test_what_runs_after_an_edit_is_the_edited_call_and_the_model_is_told(stages: Stages) -> None:
    stage = await stages([call("run_python", code="drop()"), say("Fine.")])
    handle = await stage.start()
    [request] = await stage.requests()
    decided = await stage.conversation.route_decision(
        request.approval_id, Decision(approved=True, edited_input={"code": "copy().drop()"})
    )
    await handle.wait()
    assert decided.edited
    assert decided.digest != request.digest
    assert [ran.arguments_json for ran in stage.executor.ran] == ['{"code":"copy().drop()"}']
    content = tool_messages(stage.model.requests[-1])[0]["content"]
    assert content.startswith('The user changed the arguments before approving. What ran: {"code":"copy().drop()"}')
    assert stage.of(ToolStartEvent)[0].tool_input == '{"code":"copy().drop()"}'


async def test_the_first_decision_wins_and_the_second_hears_of_it(stages: Stages) -> None:
    stage = await stages([call("run_python", code="1"), say("ok")])
    handle = await stage.start()
    [request] = await stage.requests()
    answers = await asyncio.gather(
        *(
            stage.conversation.route_decision(request.approval_id, Decision(approved=n % 2 == 0), decided_by=f"tab {n}")
            for n in range(8)
        ),
        return_exceptions=True,
    )
    await handle.wait()
    first = [answer for answer in answers if not isinstance(answer, BaseException)]
    assert len(first) == 1
    late = [answer for answer in answers if isinstance(answer, AlreadyDecided)]
    assert len(late) == 7
    assert {error.first["decided_by"] for error in late} == {first[0].decided_by}
    assert len(stage.executor.ran) == (1 if first[0].state == "approved" else 0)


async def test_a_decision_for_other_arguments_than_shown_changes_nothing(stages: Stages) -> None:
    stage = await stages([call("run_python", code="1"), say("ok")])
    handle = await stage.start()
    [request] = await stage.requests()
    with pytest.raises(DigestMismatch):
        await stage.conversation.route_decision(request.approval_id, Decision(approved=True, digest="0" * 64))
    assert stage.executor.ran == []
    await stage.conversation.route_decision(request.approval_id, Decision(approved=True, digest=request.digest))
    await handle.wait()


async def test_an_approved_call_starts_while_its_sibling_still_waits_and_the_model_hears_of_both_in_order(
    stages: Stages,
) -> None:
    turn = calls(call("run_python", code="first", call_id="a"), call("run_python", code="second", call_id="b"))
    stage = await stages([turn, say("done")], executor=FunctionExecutor(lambda call, emit: call.tool_call_id))
    handle = await stage.start()
    first, second = await stage.requests(2)
    await stage.conversation.route_decision(second.approval_id, Decision(approved=True))
    await stage.until(lambda: stage.of(ToolCompleteEvent))
    assert [ran.tool_call_id for ran in stage.executor.ran] == ["b"]
    assert len(stage.model.requests) == 1, "the model must not be asked before every call has its outcome"
    await stage.conversation.route_decision(first.approval_id, Decision(approved=False, reason="No."))
    await handle.wait()
    assert [message["tool_call_id"] for message in tool_messages(stage.model.requests[-1])] == ["a", "b"]
    assert [message["role"] for message in stage.model.requests[-1].messages] == [
        "system",
        "user",
        "assistant",
        "tool",
        "tool",
    ]


async def test_calls_that_touch_the_kernel_run_one_at_a_time(stages: Stages) -> None:
    running: list[str] = []
    most = 0

    async def act(call: Any, emit: Any) -> str:
        nonlocal most
        running.append(call.tool_call_id)
        most = max(most, len(running))
        await asyncio.sleep(0.01)
        running.remove(call.tool_call_id)
        return "ok"

    turn = calls(*(call("run_python", code=str(n)) for n in range(5)))
    stage = await stages([turn, say("done")], executor=FunctionExecutor(act))
    await stage.run(policy="allow")
    assert len(stage.executor.ran) == 5
    assert most == 1


async def test_always_allow_lets_the_next_call_and_the_waiting_sibling_run_unasked(stages: Stages) -> None:
    turn = calls(call("run_python", code="1", call_id="a"), call("run_python", code="2", call_id="b"))
    stage = await stages([turn, call("run_python", code="3", call_id="c"), say("done")])
    handle = await stage.start()
    first, _ = await stage.requests(2)
    await stage.conversation.route_decision(first.approval_id, Decision(approved=True, scope="conversation"))
    result = await handle.wait()
    assert [c.by for c in result.tool_calls] == ["user", "policy", "policy"]
    assert [rule.text for rule in result.run.policy.rules] == ["allow run_python"]


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
    result = await handle.wait()
    assert [one.state for one in result.tool_calls] == ["success", "denied"]
    assert [json.loads(ran.arguments_json)["path"] for ran in stage.executor.ran] == ["first.csv"]


WRITE_FILE = next(tool for tool in BUILTIN_TOOLS if tool.name == "write_file")


async def test_a_site_caps_what_a_notebook_may_choose(stages: Stages) -> None:
    stage = await stages([call("run_python", code="1"), say("ok")], policy_cap="ask")
    handle = await stage.start(policy="allow", rules=("allow *",))
    await stage.deny()
    result = await handle.wait()
    assert result.run.policy.mode == "ask"


async def test_with_nobody_there_a_call_is_denied_with_a_clear_reason(stages: Stages) -> None:
    stage = await stages([call("run_python", code="1"), say("ok")], attended=False)
    result = await stage.run()
    assert stage.executor.ran == []
    assert result.tool_calls[0].reason == "Nobody was there to ask: this notebook ran without a page."


async def test_an_unknown_tool_and_invalid_arguments_become_errors_the_model_can_act_on(stages: Stages) -> None:
    turn = ModelTurn(
        "",
        tool_calls=(
            requested("fly", {}, call_id="a"),
            requested("run_python", {"cod": "1"}, call_id="b"),
            requested("run_python", '{"code": "1', call_id="c"),
        ),
    )
    stage = await stages([turn, say("sorry")])
    result = await stage.run()
    assert [c.state for c in result.tool_calls] == ["invalid"] * 3
    contents = [message["content"] for message in tool_messages(stage.model.requests[-1])]
    assert all(content.startswith("Error: this call is not valid and did not run.") for content in contents)
    assert "run_python, look" in contents[0]
    assert "code" in contents[1]
    assert [event.state for event in stage.of(ToolCompleteEvent)] == ["invalid"] * 3


async def test_a_model_that_sends_nothing_but_invalid_calls_is_stopped(stages: Stages) -> None:
    stage = await stages([call("fly")] * 4)
    result = await stage.run()
    assert result.run.status == "error"
    assert result.run.error is not None
    assert "not valid 4 times in a row" in result.run.error.message


REFUSED = """
CREATE TEMP TRIGGER refused BEFORE UPDATE ON tool_calls WHEN NEW.state = 'success'
BEGIN SELECT raise(ABORT, 'refused'); END
"""


async def test_a_model_is_not_told_of_an_outcome_that_is_not_in_the_log(stages: Stages) -> None:
    stage = await stages([call("run_python", code="1", call_id="a"), say("Let me see.")])
    await stage.log.read(lambda sql: sql.execute(REFUSED) and None)
    broken = await stage.run(policy="allow")
    assert [ran.tool_call_id for ran in stage.executor.ran] == ["a"]
    assert (broken.run.status, broken.text) == ("error", "")
    [ended] = broken.tool_calls
    assert ended.state == "unknown"
    assert not stage.of(TokenEvent)
    await stage.run("And now?")
    told = stage.model.requests[-1].messages
    assert [message["role"] for message in told] == ["system", "user", "assistant", "tool", "user"]
    assert told[3]["content"].startswith("Outcome unknown.")
