"""A run that is tried again goes on from where it was; one whose cell is run again is left out for the model."""

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from agent_kernel.errors import AlreadyDecided, ModelUnavailable, UnknownRun
from agent_kernel.models.base import ModelItem, ModelRequest, TextDelta
from agent_kernel.protocol.events import MessageEvent, RunEvent, TokenEvent
from agent_kernel.runtime.runs.queue import RunHandle
from agent_kernel.testing import call, say
from tests.core.runtime.runtime_fixtures import Stage, Stages, second_life


async def fails(request: ModelRequest) -> AsyncGenerator[ModelItem, None]:
    """A turn that breaks off in the middle of a text."""
    yield TextDelta("Half an ans")
    raise ModelUnavailable("gpt-5.2 returned 429, too many requests.")


async def failed(stages: Stages, *turns: Any, path: Path | None = None) -> tuple[Stage, str]:
    """A run that did one call before its model failed, and its id."""
    stage = await stages([call("look", call_id="a"), fails, *turns], path=path)
    run = (await stage.run("Look.")).run
    assert run.error is not None
    assert (run.status, run.error.code) == ("error", "LLM_ERROR")
    return stage, run.run_id


async def test_it_goes_on_with_the_same_history_and_no_prompt_twice(stages: Stages) -> None:
    stage, run_id = await failed(stages, say("Done."))
    again = await stage.conversation.retry_run(run_id)
    result = await again.wait()
    assert (again.run_id, result.run.status, result.run.error) == (run_id, "complete", None)
    assert (result.text, stage.roles()) == ("Done.", ["system", "user", "assistant", "tool"])
    assert [event.run.status for event in stage.of(RunEvent)] == ["running", "error", "running", "complete"]
    # What it had begun to say is taken back: it is asked again.
    taken_back = [event for event in stage.of(MessageEvent) if event.role == "assistant" and event.content == ""]
    assert taken_back[-1].message_id == stage.of(TokenEvent)[0].message_id


async def test_of_two_who_ask_the_first_does_and_a_run_that_goes_on_is_left_alone(stages: Stages) -> None:
    stage, run_id = await failed(stages, say("Done."), say("Else."))
    tries = [stage.conversation.retry_run(run_id) for _ in range(2)]
    first, second = await asyncio.gather(*tries, return_exceptions=True)
    assert isinstance(second, AlreadyDecided)
    assert (await first.wait()).text == "Done."
    with pytest.raises(AlreadyDecided):
        await stage.conversation.retry_run(run_id)
    with pytest.raises(UnknownRun):
        await stage.conversation.retry_run("run_nowhere")
    await stage.run("Something else")


async def test_after_a_restart_it_goes_on_with_the_same_history_and_in_the_same_kernel(
    stages: Stages, tmp_path: Path
) -> None:
    before, run_id = await failed(stages, path=tmp_path / "log.sqlite")
    async with second_life(before, call("look", call_id="b"), say("Done.")) as again:
        assert again.handles == []
        result = await (await again.conversation.retry_run(run_id)).wait()
        shown = await again.conversation.view()
        with pytest.raises(AlreadyDecided):
            await again.conversation.retry_run(run_id)
    assert (result.run.run_id, result.run.status, result.run.error, result.text) == (run_id, "complete", None, "Done.")
    assert [ran.tool_call_id for ran in again.executor.ran] == ["b"]
    assert again.roles(0) == ["system", "user", "assistant", "tool"]
    assert [(one.run_id, one.status) for one in shown.runs] == [(run_id, "complete")]
    assert [one.role for one in shown.messages] == ["user", *["assistant", "tool"] * 2, "assistant"]


async def ask(stage: Stage, prompt: str, *replaces: RunHandle) -> RunHandle:
    """A run that has ended, in place of those."""
    handle = await stage.start(prompt, replaces=tuple(one.run_id for one in replaces))
    assert (await handle.wait()).run.status == "complete"
    return handle


async def test_the_last_run_is_left_out_with_its_calls(stages: Stages) -> None:
    stage = await stages([call("look", call_id="a"), say("First."), say("Second.")])
    await ask(stage, "Go two", await ask(stage, "Go one"))
    assert stage.roles() == ["system", "user"]
    prompt = stage.model.requests[-1].messages[1]["content"]
    assert prompt.startswith("Go two")
    assert "The user has run this cell again" in prompt
    whole = await stage.conversation.view()
    assert [m.role for m in whole.messages] == ["user", "assistant", "tool", "assistant", "user", "assistant"]
