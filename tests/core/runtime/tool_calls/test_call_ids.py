"""The ids that a model gives its calls: kept where they can be, unique in their conversation, and no further."""

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from agent_kernel.errors import ModelUnavailable
from agent_kernel.models.base import ModelItem, ModelRequest, ModelTurn, ToolCallDelta
from agent_kernel.protocol.ids import new_run_id
from agent_kernel.runtime.settings import RunSpec
from agent_kernel.testing import ScriptedModel, call, calls, say
from tests.core.runtime.runtime_fixtures import LOOK, RUN_PYTHON, Stages, stage


async def cut_off(request: ModelRequest) -> AsyncGenerator[ModelItem, None]:
    """A turn that fails while it writes a call."""
    yield ToolCallDelta(0, "look", "call_0")
    await asyncio.sleep(0.05)  # longer than a batch: the card is shown
    raise ModelUnavailable("The connection ended in the middle of a call.")


@pytest.mark.parametrize("restarts", [False, True])
async def test_a_card_that_was_cut_off_stays_ended_when_the_model_counts_from_the_same_id_again(
    tmp_path: Path, restarts: bool
) -> None:
    path = tmp_path / "log.sqlite"
    with ScriptedModel([cut_off, call("look", call_id="call_0"), say("Done.")]) as model:
        first = await stage(model, path)
        handle = await first.start()
        assert (await handle.wait()).run.status == "error"
        conversation = first.conversation
        if restarts:
            await first.close()
            first = await stage(model, path)
            await first.runtime.recover(lambda *_: _executor(first.executor))
            conversation = await first.runtime.conversation(conversation.conversation_id)
        result = await (await conversation.retry_run(handle.run_id)).wait()
        [done] = result.tool_calls
        frames = conversation.subscribe(0)
        shown = [frame async for frame in _until_complete(frames)]
        await first.close()
    assert done.state == "success"
    assert done.tool_call_id != "call_0"
    ends = [frame for frame in shown if '"type":"tool_complete"' in frame]
    told = [('"tool_call_id":"call_0"' in frame, '"state":"cancelled"' in frame) for frame in ends]
    assert told == [(True, True), (False, False)]


async def _executor(executor: Any) -> Any:
    return executor


async def _until_complete(frames: Any) -> Any:
    completed = 0
    async for frame in frames:
        yield frame
        completed += '"type":"complete"' in frame
        if completed == 2:
            return


@pytest.mark.parametrize("kept", ["functions.run_python:0", "../../x", "call__thought__" + "A/+=" * 999])
async def test_an_id_of_odd_but_plain_characters_stays_the_models(stages: Stages, kept: str) -> None:
    stage = await stages([call("look", call_id=kept), say("Done.")])
    result = await stage.run()
    assert [one.tool_call_id for one in result.tool_calls] == [kept]
    assert stage.model.requests[-1].messages[-1]["tool_call_id"] == kept


@pytest.mark.parametrize("odd", ["a\x00b", "\ud800", "x" * 100_000])
async def test_an_id_that_can_be_neither_kept_nor_shown_gives_way_to_one_that_can(stages: Stages, odd: str) -> None:
    stage = await stages([calls(call("look", call_id=odd), call("look", call_id=odd)), say("Done.")])
    result = await stage.run()
    ids = [one.tool_call_id for one in result.tool_calls]
    assert len(set(ids)) == 2
    assert odd not in ids
    asked, *answered = stage.model.requests[-1].messages[-3:]
    assert [one["id"] for one in asked["tool_calls"]] == [one["tool_call_id"] for one in answered] == ids


async def test_conversations_that_share_ids_share_nothing_else(tmp_path: Path) -> None:
    """At the same time, and after a restart: each has its own calls, outputs and results."""
    path = tmp_path / "log.sqlite"
    seen = []
    for _ in range(2):
        one = await stage(ScriptedModel([ask_once] * 4), path)
        one.executor.act = lambda ran, emit: ran.approval_id
        handles = [await one.start()]
        other = await one.runtime.create_conversation()
        spec = RunSpec(run_id=new_run_id(), prompt="Go", tools=(RUN_PYTHON, LOOK))
        handles.append(await other.start_run(spec, one.executor))
        seen += [(await handle.wait()).tool_calls[0] for handle in handles]
        await one.close()
    assert {call.tool_call_id for call in seen} == {"call_0"}
    assert len({call.approval_id for call in seen}) == 4
    assert [call.result for call in seen] == [call.approval_id for call in seen]
    assert [[output.text for output in call.outputs] for call in seen] == [[call.approval_id] for call in seen]


def ask_once(request: ModelRequest) -> ModelTurn:
    return say("Done.") if request.messages[-1]["role"] == "tool" else call("look", call_id="call_0")
