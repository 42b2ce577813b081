"""What a person says next: in a new prompt, or while a run goes on."""

from collections.abc import AsyncGenerator
from typing import Any

import pytest

from agent_kernel.errors import AlreadyDecided, LogUnavailable
from agent_kernel.models.base import ModelItem, ModelRequest
from agent_kernel.runtime.turns import tool_messages
from agent_kernel.testing import call, say
from tests.core.runtime.runtime_fixtures import Stages


async def test_a_second_prompt_continues_the_conversation(stages: Stages) -> None:
    stage = await stages([say("One."), say("Two.")])
    first, second = await stage.start("first"), await stage.start("second")
    assert [(await one.wait()).text for one in (first, second)] == ["One.", "Two."]
    contents = [message["content"] for message in stage.model.requests[-1].messages if message["role"] != "system"]
    assert contents[0].startswith("first\n\n<notebook_context>\nNotebook: test.ipynb")
    assert contents[1] == "One."
    assert contents[2].startswith("second")


async def test_the_model_is_not_asked_on_before_a_steps_results_are_written(
    stages: Stages, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = tool_messages._answer

    def refused_once(*arguments: Any) -> None:
        monkeypatch.setattr(tool_messages, "_answer", answer)
        raise LogUnavailable("The disk is full.")

    stage = await stages([call("run_python", code="1"), say("Later.")])
    monkeypatch.setattr(tool_messages, "_answer", refused_once)
    result = await stage.run(policy="allow")
    assert (result.run.status, len(stage.model.requests)) == ("error", 1)
    await stage.run()
    assert stage.roles() == ["system", "user", "assistant", "tool", "user"]


async def test_a_message_that_comes_with_the_last_words_of_an_answer_is_heard(stages: Stages) -> None:
    async def interrupted(request: ModelRequest) -> AsyncGenerator[ModelItem, None]:
        await stage.conversation.send_message("And now?")
        yield say("One.")

    stage = await stages([interrupted, say("Two.")])
    assert (await stage.run()).text == "Two."
    assert stage.roles() == ["system", "user", "assistant", "user"]


async def test_a_new_message_replaces_waiting_calls_and_is_heard_before_the_next_model_call(stages: Stages) -> None:
    stage = await stages([call("run_python", code="1"), say("Changed.")])
    handle, [request] = await stage.asking()
    run_id = await stage.conversation.send_message("Do something else.")
    result = await handle.wait()
    assert run_id == handle.run_id
    with pytest.raises(AlreadyDecided):
        await stage.approve(request)
    assert [one.state for one in result.tool_calls] == ["superseded"]
    assert stage.roles() == ["system", "user", "assistant", "tool", "user"]
