"""A call whose outcome nobody knows: a person looks before the model goes on, and nothing runs again unasked."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from agent_kernel.errors import AlreadyDecided, KernelGone
from agent_kernel.protocol.commands import Decision, ToolRetryCommand
from agent_kernel.runtime.clients.dispatch import handle_command
from agent_kernel.runtime.runs.queue import RunHandle
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
    states,
    until_unknown,
)

DIES = call("run_python", code="os._exit(1)", call_id="a")
AGAIN = call("run_python", code="os._exit(1)", call_id="b")


def dying() -> FunctionExecutor:
    """A kernel that dies in its first call and comes back."""
    died = False

    def act(call: Any, emit: Any) -> str:
        nonlocal died
        if not died:
            died = True
            raise KernelGone("The kernel died. Its variables are gone.")
        return "ran"

    return FunctionExecutor(act)


async def died(stages: Stages, *turns: Any, **options: Any) -> tuple[Stage, RunHandle]:
    """A run that waits for a look at a call with an unknown outcome."""
    stage = await stages([DIES, *turns], executor=dying(), **options)
    handle = await stage.start(policy="allow")
    assert await until_unknown(stage) == "a"
    return stage, handle


async def test_run_again_has_the_model_ask_and_the_person_is_asked_though_policy_would_allow_it(stages: Stages) -> None:
    stage, handle = await died(stages, AGAIN, say("Done."))
    await handle_command(ToolRetryCommand(type="tool_retry", tool_call_id="a"), stage.conversation, "ana")
    [request] = await stage.requests()
    assert [ran.tool_call_id for ran in stage.executor.ran] == ["a"]
    await stage.decide(Decision(approved=True, digest=request.digest))
    assert states(await handle.wait()) == {"a": "unknown", "b": "success"}
    told = [message["content"] for message in stage.model.requests[1].messages[-2:]]
    assert told[0].startswith("Outcome unknown.")
    assert told[1].startswith("Try this call again: run_python with")


async def test_of_two_answers_the_first_counts_and_is_in_the_audit_trail(stages: Stages) -> None:
    stage, handle = await died(stages, say("I see."))
    both = (stage.conversation.answer_unknown("a", "continue", decided_by=name) for name in ("ana", "ben"))
    answers = await asyncio.gather(*both, return_exceptions=True)
    await handle.wait()
    entries = await stage.audit()
    assert [type(one) for one in answers if isinstance(one, Exception)] == [AlreadyDecided]
    first = "ben" if isinstance(answers[0], Exception) else "ana"
    [entry] = [entry for entry in entries if entry["kind"] == "unknown"]
    [decision] = [entry for entry in entries if entry["kind"] == "decision"]
    assert (decision["tool_call_id"], decision["approval_id"]) == ("a", entry["approval_id"])
    assert (entry["answer"], entry["decided_by"]) == ("continue", first)


@pytest.mark.parametrize("step", ["waits", "waits and it was answered", "has ended"])
async def test_after_a_restart_it_is_asked_about_unless_it_was_answered(
    stages: Stages, tmp_path: Path, step: str
) -> None:
    turn = DIES if step == "has ended" else calls(DIES, call("run_python", code="2", call_id="b"))
    before = await stages([turn], path=tmp_path / "log.sqlite", executor=dying())
    await before.start()
    await before.approve()
    await until_unknown(before)
    if "answered" in step:
        await before.conversation.answer_unknown("a", "continue")
    async with second_life(before, say("I see.")) as again:
        again.conversation.client_came()
        if "waits" in step:
            await again.conversation.cancel_call("b")
        if "answered" not in step:
            await again.until_paused()
            shown, *_ = await again.calls()
            assert (shown.state, shown.unknown_answer, again.model.requests) == ("unknown", None, [])
            await again.conversation.answer_unknown("a", "continue")
        assert (await again.handles[0].wait()).text == "I see."
    assert len(again.told()) == len(turn.tool_calls)


async def test_where_no_page_shows_the_run_the_model_is_told_and_goes_on() -> None:
    with ScriptedModel([DIES, say("I see.")]) as model:
        runtime = await Runtime.open(None, OneModel(model), RuntimeSettings(client_seconds=0.01))
        conversation = await runtime.create_conversation()
        spec = RunSpec(run_id="run_unseen", prompt="Go", tools=(RUN_PYTHON,), policy="allow")
        result = await (await conversation.start_run(spec, dying())).wait()
        await runtime.aclose()
    assert (result.text, result.tool_calls[0].unknown_answer) == ("I see.", None)


async def test_the_same_call_is_asked_about_in_a_later_run_too(stages: Stages) -> None:
    stage, handle = await died(stages, say("I see."), AGAIN)
    await stage.conversation.answer_unknown("a", "continue")
    await handle.wait()
    await stage.asking(policy="allow")
    assert [ran.tool_call_id for ran in stage.executor.ran] == ["a"]
