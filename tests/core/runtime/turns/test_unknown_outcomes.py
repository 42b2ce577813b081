"""A call whose outcome nobody knows: a person looks before the model goes on, and nothing runs again unasked."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from agent_kernel.errors import AlreadyDecided, KernelGone
from agent_kernel.protocol.commands import Decision, ToolRetryCommand
from agent_kernel.protocol.events import ToolAnsweredEvent, ToolCompleteEvent
from agent_kernel.runtime.clients.dispatch import handle_command
from agent_kernel.runtime.runtime import Runtime
from agent_kernel.runtime.settings import RunSpec, RuntimeSettings
from agent_kernel.testing import ScriptedModel, call, calls, say
from tests.core.runtime.runtime_fixtures import (
    RUN_PYTHON,
    FunctionExecutor,
    OneModel,
    Stage,
    Stages,
    second_life,
    stage,
)

DIES = call("run_python", code="os._exit(1)", call_id="a")


class Dying(FunctionExecutor):
    """A kernel that dies in its first call and comes back."""

    def __init__(self) -> None:
        super().__init__(self._die)

    def _die(self, call: Any, emit: Any) -> str:
        if len(self.ran) == 1:
            raise KernelGone("The kernel died. Its variables are gone.")
        return "ran"


async def until_unknown(stage: Stage) -> None:
    await stage.until(lambda: [event for event in stage.of(ToolCompleteEvent) if event.state == "unknown"])


async def test_the_model_is_told_once_a_person_says_continue(stages: Stages) -> None:
    stage = await stages([DIES, say("I see.")], executor=Dying())
    handle = await stage.start(policy="allow")
    await until_unknown(stage)
    assert len(stage.model.requests) == 1
    await stage.conversation.answer_unknown("a", "continue", decided_by="ana")
    result = await handle.wait()
    assert (result.run.status, result.text) == ("complete", "I see.")
    assert stage.model.requests[-1].messages[-1]["content"].startswith("Outcome unknown. The kernel died.")
    [answered] = stage.of(ToolAnsweredEvent)
    assert (answered.answer, answered.decided_by) == ("continue", "ana")
    assert [one.unknown_answer for one in result.tool_calls] == ["continue"]


async def test_run_again_has_the_model_ask_and_the_person_is_asked_though_policy_would_allow_it(stages: Stages) -> None:
    again = call("run_python", code="os._exit(1)", call_id="b")
    stage = await stages([DIES, again, say("Done.")], executor=Dying())
    handle = await stage.start(policy="allow")
    await until_unknown(stage)
    await handle_command(ToolRetryCommand(type="tool_retry", tool_call_id="a"), stage.conversation, "ana")
    [request] = await stage.requests()
    assert [ran.tool_call_id for ran in stage.executor.ran] == ["a"]
    await stage.conversation.route_decision(request.approval_id, Decision(approved=True, digest=request.digest))
    result = await handle.wait()
    assert [one.state for one in result.tool_calls] == ["unknown", "success"]
    told = [message["content"] for message in stage.model.requests[1].messages[-2:]]
    assert told[0].startswith("Outcome unknown.")
    assert told[1].startswith("Try this call again: run_python with")


async def test_the_same_call_is_asked_about_in_a_later_run_too(stages: Stages) -> None:
    one = await stages([DIES, say("I see."), call("run_python", code="os._exit(1)", call_id="b")], executor=Dying())
    handle = await one.start(policy="allow")
    await until_unknown(one)
    await one.conversation.answer_unknown("a", "continue")
    await handle.wait()
    await one.start("Once more", policy="allow")
    await one.requests()
    assert [ran.tool_call_id for ran in one.executor.ran] == ["a"]


async def test_of_two_answers_the_first_counts_and_is_in_the_audit_trail(stages: Stages) -> None:
    one = await stages([DIES, say("I see.")], executor=Dying())
    handle = await one.start(policy="allow")
    await until_unknown(one)
    answers = await asyncio.gather(
        one.conversation.answer_unknown("a", "continue", decided_by="ana"),
        one.conversation.answer_unknown("a", "continue", decided_by="ben"),
        return_exceptions=True,
    )
    await handle.wait()
    entries = await one.audit()
    assert [type(one) for one in answers if isinstance(one, Exception)] == [AlreadyDecided]
    [entry] = [entry for entry in entries if entry["kind"] == "unknown"]
    first = "ben" if isinstance(answers[0], Exception) else "ana"
    [decision] = [entry for entry in entries if entry["kind"] == "decision"]
    assert (decision["tool_call_id"], decision["approval_id"]) == ("a", entry["approval_id"])
    assert (entry["answer"], entry["decided_by"]) == ("continue", first)


@pytest.mark.parametrize("answered", [False, True])
async def test_after_a_restart_it_is_asked_about_unless_it_was_answered(tmp_path: Path, answered: bool) -> None:
    path = tmp_path / "log.sqlite"
    held = calls(DIES, call("run_python", code="2", call_id="b"))
    with ScriptedModel([held]) as model:
        before = await stage(model, path, Dying())
        await before.start()
        first, _ = await before.requests(2)
        await before.conversation.route_decision(first.approval_id, Decision(approved=True))
        await until_unknown(before)
        if answered:
            await before.conversation.answer_unknown("a", "continue")
    with ScriptedModel([say("I see.")]) as model:
        async with second_life(path, model, before, FunctionExecutor()) as (conversation, [handle]):
            conversation.client_came()
            await conversation.cancel_call("b")
            if not answered:
                [shown, _] = (await conversation.view()).tool_calls
                assert (shown.state, shown.unknown_answer, len(model.requests)) == ("unknown", None, 0)
                await conversation.answer_unknown("a", "continue")
            assert (await handle.wait()).text == "I see."


async def test_after_a_restart_it_is_asked_about_also_where_the_whole_step_has_ended(tmp_path: Path) -> None:
    path = tmp_path / "log.sqlite"
    with ScriptedModel([DIES]) as model:
        before = await stage(model, path, Dying())
        await before.start(policy="allow")
        await until_unknown(before)
        await before.until_paused()
    with ScriptedModel([say("I see.")]) as model:
        async with second_life(path, model, before, FunctionExecutor()) as (conversation, [handle]):
            conversation.client_came()
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(asyncio.shield(handle.wait()), 0.5)
            assert len(model.requests) == 0
            await conversation.answer_unknown("a", "continue")
            assert (await handle.wait()).text == "I see."
    told = [message for message in model.requests[0].messages if message["role"] == "tool"]
    assert [message["tool_call_id"] for message in told] == ["a"]


async def test_where_no_page_shows_the_run_the_model_is_told_and_goes_on() -> None:
    with ScriptedModel([DIES, say("I see.")]) as model:
        runtime = await Runtime.open(None, OneModel(model), RuntimeSettings(client_seconds=0.01))
        conversation = await runtime.create_conversation()
        spec = RunSpec(run_id="run_unseen", prompt="Go", tools=(RUN_PYTHON,), policy="allow")
        result = await (await conversation.start_run(spec, Dying())).wait()
        await runtime.aclose()
    assert (result.text, result.tool_calls[0].unknown_answer) == ("I see.", None)


async def test_a_new_prompt_does_not_wait_for_the_look(stages: Stages) -> None:
    stage = await stages([DIES, say("I see."), say("Something else.")], executor=Dying())
    first = await stage.start(policy="allow")
    await stage.until_paused()
    second = await stage.start("Something else")
    assert [(await handle.wait()).text for handle in (first, second)] == ["I see.", "Something else."]


async def test_stop_ends_a_run_that_waits_for_a_look(stages: Stages) -> None:
    stage = await stages([DIES], executor=Dying())
    handle = await stage.start(policy="allow")
    await until_unknown(stage)
    await stage.conversation.cancel_run(handle.run_id)
    assert (await handle.wait()).run.status == "cancelled"
