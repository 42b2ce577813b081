"""A run whose model failed is tried again: it goes on from where it was."""

import asyncio
from typing import Any

import pytest

from agent_kernel.errors import AlreadyDecided, ModelUnavailable, UnknownRun
from agent_kernel.models.base import ModelRequest, TextDelta
from agent_kernel.testing import ScriptedModel, call, say


class Failing(ScriptedModel):
    """Fails once, after so many turns, in the middle of a text."""

    def __init__(self, turns: Any, after: int) -> None:
        super().__init__(turns)
        self._after = after

    async def stream(self, request: ModelRequest) -> Any:
        if len(self.requests) == self._after:
            self._after = -1
            yield TextDelta("Half an ans")
            raise ModelUnavailable("gpt-5.2 returned 429, too many requests.")
        async for item in super().stream(request):
            yield item


async def test_it_goes_on_with_the_same_history_and_no_prompt_twice(stages: Any) -> None:
    with Failing([call("look", call_id="a"), say("Done.")], after=1) as model:
        stage = await stages(model)
        handle = await stage.start("Look.")
        failed = (await handle.wait()).run
        assert failed.error is not None
        assert (failed.status, failed.error.code) == ("error", "LLM_ERROR")
        again = await stage.conversation.retry_run(handle.run_id)
        result = await again.wait()
    assert (again.run_id, result.run.status, result.run.error) == (handle.run_id, "complete", None)
    assert result.text == "Done."
    assert [m["role"] for m in model.requests[-1].messages] == ["system", "user", "assistant", "tool"]
    assert [event.run.status for event in stage.of("run")] == ["running", "error", "running", "complete"]
    # What it had begun to say is taken back: it is asked again.
    taken_back = [event for event in stage.of("message") if event.role == "assistant" and event.content == ""]
    assert [event.message_id for event in taken_back] == [stage.of("token")[0].message_id]


async def test_of_two_who_ask_the_first_does_and_a_run_that_goes_on_is_left_alone(stages: Any) -> None:
    with Failing([say("Done.")], after=0) as model:
        stage = await stages(model)
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


async def test_once_something_else_was_asked_for_it_is_too_late(stages: Any) -> None:
    with Failing([say("Else.")], after=0) as model:
        stage = await stages(model)
        failed = await stage.start()
        await failed.wait()
        await (await stage.start("Something else")).wait()
        with pytest.raises(AlreadyDecided, match="asked for since"):
            await stage.conversation.retry_run(failed.run_id)
