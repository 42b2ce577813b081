"""A run that only waits for a person keeps nothing in memory, and nobody can tell."""

import asyncio

import pytest

from agent_kernel.errors import AlreadyDecided
from agent_kernel.protocol.commands import Decision
from agent_kernel.protocol.events import ToolCompleteEvent
from agent_kernel.protocol.ids import new_run_id
from agent_kernel.runtime.conversation import Conversation
from agent_kernel.runtime.settings import RunSpec
from agent_kernel.runtime.state.run import ActiveRun
from agent_kernel.testing import ScriptedModel, call, calls, say
from tests.core.runtime.runtime_fixtures import RUN_PYTHON, Stage, Stages

AT_ONCE = {"suspend_seconds": 0.01}


async def until_suspended(stage: Stage) -> None:
    async with asyncio.timeout(5):
        while stage.conversation.in_memory:  # noqa: ASYNC110 -- suspending makes no sound
            await asyncio.sleep(0.005)


async def test_a_decision_on_a_suspended_run_is_acted_on_as_on_any_other(stages: Stages) -> None:
    with ScriptedModel([call("run_python", code="1", call_id="a"), say("Done.")]) as model:
        stage = await stages(model, **AT_ONCE)
        handle = await stage.start("Go")
        [request] = await stage.requests()
        await until_suspended(stage)
        assert (await stage.conversation.view()).status == "awaiting_approval"
        await stage.conversation.route_decision(request.approval_id, Decision(approved=True, digest=request.digest))
        result = await handle.wait()
    assert [ran.tool_call_id for ran in stage.executor.ran] == ["a"]
    assert result.text == "Done."
    assert [m["role"] for m in model.requests[-1].messages] == ["system", "user", "assistant", "tool"]
    assert [event.type for event in stage.events if event.type != "token"] == [
        *("run", "message", "tool_state", "usage", "approval_request", "approval_response"),
        *("tool_start", "tool_output", "tool_complete", "message", "complete", "run"),
    ]


async def test_a_suspended_run_whose_history_is_no_longer_in_memory_goes_on_with_all_of_it(stages: Stages) -> None:
    turns = [call("run_python", code="1", call_id="a"), say("One."), call("run_python", code="2", call_id="b")]
    with ScriptedModel([*turns, say("Two.")]) as model:
        stage = await stages(model, **AT_ONCE)
        for count in (1, 2):
            handle = await stage.start(f"prompt {count}")
            request = (await stage.requests(count))[-1]
            await until_suspended(stage)
            stage.forget_history()
            await stage.conversation.route_decision(request.approval_id, Decision(approved=True))
            await handle.wait()
    last = model.requests[-1].messages
    roles = ["user", "assistant", "tool", "assistant", "user", "assistant", "tool"]
    assert [message["role"] for message in last] == ["system", *roles]
    assert [message.get("tool_call_id") for message in last if message["role"] == "tool"] == ["a", "b"]


async def test_two_calls_of_a_suspended_run_are_decided_one_after_the_other(stages: Stages) -> None:
    turn = calls(call("run_python", code="1", call_id="a"), call("run_python", code="2", call_id="b"))
    with ScriptedModel([turn, say("Done.")]) as model:
        stage = await stages(model, **AT_ONCE)
        handle = await stage.start()
        first, second = await stage.requests(2)
        await until_suspended(stage)
        await stage.conversation.route_decision(second.approval_id, Decision(approved=True))
        await stage.until(lambda: stage.of(ToolCompleteEvent))
        await until_suspended(stage)
        with pytest.raises(AlreadyDecided):
            await stage.conversation.route_decision(second.approval_id, Decision(approved=False))
        await stage.conversation.route_decision(first.approval_id, Decision(approved=False, reason="No."))
        result = await handle.wait()
    assert [ran.tool_call_id for ran in stage.executor.ran] == ["b"]
    assert [c.state for c in result.tool_calls] == ["denied", "success"]


async def test_stop_ends_a_suspended_run(stages: Stages) -> None:
    with ScriptedModel([call("run_python", code="1")]) as model:
        stage = await stages(model, **AT_ONCE)
        handle = await stage.start()
        await stage.requests()
        await until_suspended(stage)
        await stage.conversation.cancel_run(handle.run_id)
        result = await handle.wait()
    assert result.run.status == "cancelled"
    assert result.tool_calls[0].state == "cancelled"


async def test_a_run_that_is_queued_behind_a_suspended_one_waits_for_it(stages: Stages) -> None:
    with ScriptedModel([call("run_python", code="1"), say("One."), say("Two.")]) as model:
        stage = await stages(model, **AT_ONCE)
        first = await stage.start("first")
        [request] = await stage.requests()
        await until_suspended(stage)
        second = await stage.start("second")
        await asyncio.sleep(0.05)
        assert len(model.requests) == 1
        await stage.conversation.route_decision(request.approval_id, Decision(approved=True))
        assert [(await handle.wait()).text for handle in (first, second)] == ["One.", "Two."]


async def test_a_new_message_replaces_the_call_of_a_suspended_run(stages: Stages) -> None:
    with ScriptedModel([call("run_python", code="1"), say("Instead.")]) as model:
        stage = await stages(model, **AT_ONCE)
        handle = await stage.start()
        await stage.requests()
        await until_suspended(stage)
        assert await stage.conversation.send_message("Something else.") == handle.run_id
        result = await handle.wait()
    assert result.tool_calls[0].state == "superseded"
    assert result.text == "Instead."


@pytest.mark.parametrize("delay", [0.0, 0.004, 0.008, 0.01, 0.0105, 0.011, 0.012, 0.015])
async def test_a_decision_in_the_moment_of_suspending_is_not_lost(stages: Stages, delay: float) -> None:
    for _ in range(4):
        with ScriptedModel([call("run_python", code="1"), say("Done.")]) as model:
            stage = await stages(model, **AT_ONCE)
            handle = await stage.start()
            [request] = await stage.requests()
            await asyncio.sleep(delay)
            await stage.conversation.route_decision(request.approval_id, Decision(approved=True))
            async with asyncio.timeout(5):
                result = await handle.wait()
        assert len(stage.executor.ran) == 1
        assert result.text == "Done."


async def test_few_runs_that_wait_stay_in_memory_and_of_many_only_so_many(
    stages: Stages, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = 0
    suspend = ActiveRun.suspend

    def counted(run: ActiveRun) -> None:
        nonlocal looks
        looks += 1
        suspend(run)

    monkeypatch.setattr(ActiveRun, "suspend", counted)
    with ScriptedModel([call("run_python", code=str(number)) for number in range(5)]) as model:
        stage = await stages(model, **AT_ONCE, runs_in_memory=2)
        conversations: list[Conversation] = []

        async def ask(count: int) -> None:
            for _ in range(count):
                conversations.append(await stage.runtime.create_conversation())
                spec = RunSpec(run_id=new_run_id(), prompt="Go", tools=(RUN_PYTHON,))
                await conversations[-1].start_run(spec, stage.executor)
            while (await stage.runtime.counts())["awaiting_approval"] < len(conversations):  # noqa: ASYNC110
                await asyncio.sleep(0.005)

        async def looked_again() -> None:
            """Until each run that waits in memory has had the time to be suspended, several times over."""
            wanted = looks + 10
            while looks < wanted:  # noqa: ASYNC110 -- suspending makes no sound
                await asyncio.sleep(0.005)

        def in_memory() -> int:
            return sum(conversation.in_memory for conversation in conversations)

        async with asyncio.timeout(10):
            await ask(2)
            await looked_again()
            assert in_memory() == 2
            await ask(3)
            while in_memory() > 2:  # noqa: ASYNC110 -- suspending makes no sound
                await asyncio.sleep(0.005)
            await looked_again()
        assert in_memory() == 2
