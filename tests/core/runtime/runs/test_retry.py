"""A run that is tried again goes on from where it was; one whose cell is run again is left out for the model."""

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from agent_kernel.errors import AlreadyDecided, KernelGone, ModelUnavailable, UnknownRun
from agent_kernel.models.base import ModelItem, ModelRequest, TextDelta
from agent_kernel.protocol.events import MessageEvent, RunEvent, TokenEvent
from agent_kernel.protocol.ids import new_run_id
from agent_kernel.runtime.conversation import Conversation
from agent_kernel.runtime.runs.queue import RunHandle
from agent_kernel.runtime.runtime import Runtime
from agent_kernel.runtime.settings import RunSpec
from agent_kernel.testing import ScriptedModel, call, say
from agent_kernel.tools.executor import ToolExecutor
from tests.core.models.model_fixtures import speaking
from tests.core.runtime.runtime_fixtures import LOOK, RUN_PYTHON, FunctionExecutor, OneModel, Stage, Stages, stage
from tests.core.runtime.turns.test_what_services_want_back import look, think, thoughts


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


AGAIN = "The user has run this cell again"


async def ask(stage: Stage, prompt: str, *replaces: RunHandle) -> RunHandle:
    ids = tuple(handle.run_id for handle in replaces)
    return await stage.conversation.start_run(
        RunSpec(run_id=new_run_id(), prompt=prompt, tools=(RUN_PYTHON, LOOK), replaces=ids), stage.executor
    )


def told(model: ScriptedModel, number: int = -1) -> list[str]:
    """What a request says, without what the notebook looks like."""
    return [str(m["content"] or "").split("\n\n<")[0] for m in model.requests[number].messages[1:]]


async def test_the_last_run_is_left_out_with_its_calls(stages: Stages) -> None:
    stage = await stages([call("look", call_id="a"), say("First."), say("Second.")])
    first = await ask(stage, "Go one")
    await first.wait()
    result = await (await ask(stage, "Go two", first)).wait()
    whole = await stage.conversation.view()
    messages = stage.model.requests[-1].messages
    assert [m["role"] for m in messages] == ["system", "user"]
    assert messages[1]["content"].startswith("Go two")
    assert AGAIN in messages[1]["content"]
    assert result.text == "Second."
    assert [m.role for m in whole.messages] == ["user", "assistant", "tool", "assistant", "user", "assistant"]


async def test_a_run_in_the_middle_is_left_out_whole_and_what_came_after_it_stays(stages: Stages) -> None:
    turns = [say("Zero."), call("look", call_id="a"), say("One."), call("look", call_id="b"), say("Two."), say("x")]
    stage = await stages([*turns, say("y")])
    for prompt in ("p0", "p1", "p2"):
        handle = await ask(stage, prompt)
        await handle.wait()
        if prompt == "p1":
            middle = handle
    again = await ask(stage, "p1 again", middle)
    await again.wait()
    request = stage.model.requests[-1].messages
    roles = ["user", "assistant", "user", "assistant", "tool", "assistant", "user"]
    assert [m["role"] for m in request] == ["system", *roles]
    assert [m["tool_call_id"] for m in request if m["role"] == "tool"] == ["b"]
    last = await ask(stage, "p1 once more", middle, again)
    await last.wait()
    assert [text for text in told(stage.model) if "p1" in text] == [told(stage.model)[-1]]


async def test_it_is_the_same_after_a_restart_and_ids_of_calls_are_not_given_twice(tmp_path: Path) -> None:
    path = tmp_path / "log.sqlite"
    turns = [call("look", call_id="a"), say("One."), say("Two."), call("look", call_id="a"), say("Three.")]
    with ScriptedModel(turns) as model:
        one = await stage(model, path)
        first = await ask(one, "Go one")
        await first.wait()
        await (await ask(one, "Go two", first)).wait()
        conversation_id = one.conversation.conversation_id
        await one.close()
        again = await stage(model, path)
        conversation = await again.runtime.conversation(conversation_id)
        spec = RunSpec(run_id=new_run_id(), prompt="Go on", tools=(LOOK,))
        result = await (await conversation.start_run(spec, FunctionExecutor())).wait()
        await again.close()
    assert [m["role"] for m in model.requests[-2].messages] == ["system", "user", "assistant", "user"]
    assert [c.state for c in result.tool_calls] == ["success"]
    assert result.tool_calls[0].tool_call_id != "a"


async def test_signed_thoughts_that_came_after_it_do_not_go_back_and_later_ones_do() -> None:
    script = [look("a", "First"), say("One."), look("b", "Second"), say("Two."), look("c", "Third"), say("Three.")]
    async with speaking(*script, think(say("Four."), "Fourth"), say("Five.")) as (server, model):
        one = await stage(model)
        first = await ask(one, "p1")
        await first.wait()
        await (await ask(one, "p2")).wait()
        result = await (await ask(one, "p1", first)).wait()
        assert result.text == "Three."
        assert thoughts(server) == ["Third"]
        await (await ask(one, "p3")).wait()
        await (await ask(one, "p4")).wait()
        await one.close()
    assert thoughts(server) == ["Third", "Fourth"]
