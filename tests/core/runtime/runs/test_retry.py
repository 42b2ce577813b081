"""A run whose model failed is tried again: it goes on from where it was."""

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from agent_kernel.errors import AlreadyDecided, KernelGone, ModelUnavailable, UnknownRun
from agent_kernel.models.base import ModelItem, ModelRequest, TextDelta
from agent_kernel.protocol.events import MessageEvent, RunEvent, TokenEvent
from agent_kernel.runtime.conversation import Conversation
from agent_kernel.runtime.runtime import Runtime
from agent_kernel.runtime.settings import RunSpec
from agent_kernel.testing import ScriptedModel, call, say
from agent_kernel.tools.executor import ToolExecutor
from tests.core.runtime.runtime_fixtures import FunctionExecutor, OneModel, Stages, stage


async def fails(request: ModelRequest) -> AsyncGenerator[ModelItem, None]:
    """A turn that breaks off in the middle of a text."""
    yield TextDelta("Half an ans")
    raise ModelUnavailable("gpt-5.2 returned 429, too many requests.")


async def test_it_goes_on_with_the_same_history_and_no_prompt_twice(stages: Stages) -> None:
    stage = await stages([call("look", call_id="a"), fails, say("Done.")])
    handle = await stage.start("Look.")
    failed = (await handle.wait()).run
    assert failed.error is not None
    assert (failed.status, failed.error.code) == ("error", "LLM_ERROR")
    again = await stage.conversation.retry_run(handle.run_id)
    result = await again.wait()
    assert (again.run_id, result.run.status, result.run.error) == (handle.run_id, "complete", None)
    assert result.text == "Done."
    assert [m["role"] for m in stage.model.requests[-1].messages] == ["system", "user", "assistant", "tool"]
    assert [event.run.status for event in stage.of(RunEvent)] == ["running", "error", "running", "complete"]
    # What it had begun to say is taken back: it is asked again.
    taken_back = [event for event in stage.of(MessageEvent) if event.role == "assistant" and event.content == ""]
    assert [event.message_id for event in taken_back] == [stage.of(TokenEvent)[0].message_id]


async def test_of_two_who_ask_the_first_does_and_a_run_that_goes_on_is_left_alone(stages: Stages) -> None:
    stage = await stages([fails, say("Done.")])
    handle = await stage.start()
    await handle.wait()
    tries = [stage.conversation.retry_run(handle.run_id) for _ in range(2)]
    first, second = await asyncio.gather(*tries, return_exceptions=True)
    assert isinstance(second, AlreadyDecided)
    assert (await first.wait()).text == "Done."
    with pytest.raises(AlreadyDecided):
        await stage.conversation.retry_run(handle.run_id)
    with pytest.raises(UnknownRun):
        await stage.conversation.retry_run("run_nowhere")


async def test_once_something_else_was_asked_for_it_is_too_late(stages: Stages) -> None:
    stage = await stages([fails, say("Else.")])
    failed = await stage.start()
    await failed.wait()
    await stage.run("Something else")
    with pytest.raises(AlreadyDecided, match="asked for since"):
        await stage.conversation.retry_run(failed.run_id)


async def failed_before_a_restart(path: Path) -> tuple[str, str]:
    """The ids of a conversation and of its run, which did one call before its model failed."""
    with ScriptedModel([call("look", call_id="a"), fails]) as model:
        before = await stage(model, path)
        handle = await before.start("Look.")
        assert (await handle.wait()).run.status == "error"
        await before.close()
    return before.conversation.conversation_id, handle.run_id


async def next_life(path: Path, model: ScriptedModel, executor: ToolExecutor | None) -> Runtime:
    async def executor_for(_: Conversation, __: RunSpec) -> ToolExecutor | None:
        return executor

    runtime = await Runtime.open(path, OneModel(model))
    recovered = await runtime.recover(executor_for)
    assert (recovered.continued, recovered.ended) == ([], [])
    return runtime


async def test_after_a_restart_it_goes_on_with_the_same_history_and_in_the_same_kernel(tmp_path: Path) -> None:
    path = tmp_path / "log.sqlite"
    conversation_id, run_id = await failed_before_a_restart(path)
    executor = FunctionExecutor()
    with ScriptedModel([call("look", call_id="b"), say("Done.")]) as model:
        runtime = await next_life(path, model, executor)
        conversation = await runtime.conversation(conversation_id)
        result = await (await conversation.retry_run(run_id)).wait()
        shown = await conversation.view()
        with pytest.raises(AlreadyDecided):
            await conversation.retry_run(run_id)
        await runtime.aclose()
    assert (result.run.run_id, result.run.status, result.run.error, result.text) == (run_id, "complete", None, "Done.")
    assert [ran.tool_call_id for ran in executor.ran] == ["b"]
    assert [m["role"] for m in model.requests[0].messages] == ["system", "user", "assistant", "tool"]
    assert [(one.run_id, one.status) for one in shown.runs] == [(run_id, "complete")]
    assert [one.role for one in shown.messages] == ["user", *["assistant", "tool"] * 2, "assistant"]


@pytest.mark.parametrize("kernel_is_there", [True, False])
async def test_a_message_after_a_restart_has_the_tools_of_the_last_run_while_its_kernel_is_there(
    tmp_path: Path, kernel_is_there: bool
) -> None:
    path = tmp_path / "log.sqlite"
    conversation_id, run_id = await failed_before_a_restart(path)
    executor = FunctionExecutor()
    with ScriptedModel([call("look", call_id="b"), say("Done.")] if kernel_is_there else [say("Done.")]) as model:
        runtime = await next_life(path, model, executor if kernel_is_there else None)
        conversation = await runtime.conversation(conversation_id)
        new = await conversation.send_message("And now?")
        assert new != run_id
        events = conversation.subscribe(0)
        async for frame in events:
            if '"type":"complete"' in frame and new in frame:
                break
        await runtime.aclose()
    assert [ran.tool_call_id for ran in executor.ran] == (["b"] if kernel_is_there else [])
    assert bool(model.requests[0].tools) is kernel_is_there
    assert model.requests[0].messages[-1]["content"].startswith("And now?")


async def test_after_a_restart_without_its_kernel_it_says_so_and_stays_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "log.sqlite"
    conversation_id, run_id = await failed_before_a_restart(path)
    with ScriptedModel([]) as model:
        runtime = await next_life(path, model, None)
        conversation = await runtime.conversation(conversation_id)
        before = await conversation.view()
        with pytest.raises(KernelGone, match="no longer there"):
            await conversation.retry_run(run_id)
        assert await conversation.view() == before
        await runtime.aclose()
