"""The ids and names that a model gives its calls: kept where they can be, and of the tool that is meant."""

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import replace
from pathlib import Path

import pytest

from agent_kernel.errors import ModelUnavailable
from agent_kernel.models.base import ModelItem, ModelRequest, ModelTurn, ToolCallDelta
from agent_kernel.protocol.events import ToolCompleteEvent
from agent_kernel.protocol.ids import new_run_id
from agent_kernel.runtime.settings import RunSpec
from agent_kernel.testing import ScriptedModel, call, calls, say
from agent_kernel.tools.registry import ToolRegistry
from tests.core.models.model_fixtures import connected
from tests.core.runtime.runtime_fixtures import LOOK, RUN_PYTHON, Stage, Stages, second_life, stage, states


async def cut_off(request: ModelRequest) -> AsyncGenerator[ModelItem, None]:
    """A turn that fails while it writes a call."""
    yield ToolCallDelta(0, "look", "call_0")
    await asyncio.sleep(0.05)  # longer than a batch: the card is shown
    raise ModelUnavailable("The connection ended in the middle of a call.")


@pytest.mark.parametrize("restarts", [False, True])
async def test_a_card_that_was_cut_off_stays_ended_when_the_model_counts_from_the_same_id_again(
    stages: Stages, tmp_path: Path, restarts: bool
) -> None:
    model = ScriptedModel([cut_off, call("look", call_id="call_0"), say("Done.")])
    first = await stages(model, path=tmp_path / "log.sqlite")
    failed = (await first.run()).run
    assert failed.status == "error"
    if restarts:
        async with second_life(first, model=model) as again:
            await _has_a_card_of_its_own(again, failed.run_id)
    else:
        await _has_a_card_of_its_own(first, failed.run_id)


async def _has_a_card_of_its_own(stage: Stage, run_id: str) -> None:
    [done] = (await (await stage.conversation.retry_run(run_id)).wait()).tool_calls
    await stage.until(lambda: len(stage.of(ToolCompleteEvent)) == 2)
    ends = [(event.tool_call_id, event.state) for event in stage.of(ToolCompleteEvent)]
    assert ends == [("call_0", "cancelled"), (done.tool_call_id, "success")]
    assert done.tool_call_id != "call_0"


@pytest.mark.parametrize("odd", ["\ud800", "x" * 100_000])
async def test_an_id_that_can_be_neither_kept_nor_shown_gives_way_to_one_that_can(stages: Stages, odd: str) -> None:
    stage = await stages([calls(call("look", call_id=odd), call("look", call_id=odd)), say("Done.")])
    ids = list(states(await stage.run()))
    assert len(ids) == 2
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
    names = [call.approval_id for call in seen]
    assert ({call.tool_call_id for call in seen}, len(set(names))) == ({"call_0"}, 4)
    assert [(call.result, *(output.text for output in call.outputs)) for call in seen] == [(n, n) for n in names]


def ask_once(request: ModelRequest) -> ModelTurn:
    return say("Done.") if request.messages[-1]["role"] == "tool" else call("look", call_id="call_0")


RUN_SHELL = replace(RUN_PYTHON, name="run_shell")


@pytest.mark.parametrize(
    ("name", "tool"),
    [
        (" run_python\n", "run_python"),
        ("functions.run_python<|channel|>commentary", "run_python"),
        ("functions", "functions"),  # a tool's own name, though another one begins so
        ("run_python<|channel|>look", "run_python<|channel|>look"),  # two tools
        ("my.run_python", "my.run_python"),  # none
    ],
)
def test_the_tool_that_a_name_means(name: str, tool: str) -> None:
    names = ("look", "functions", "functions_look")
    registry = ToolRegistry([RUN_PYTHON, *(replace(LOOK, name=one) for one in names)])
    assert registry.meant(name) == tool


async def test_rules_are_judged_on_the_tools_name(stages: Stages) -> None:
    name = "functions.run_shell<|channel|>commentary"
    async with connected(call(name, call_id="a", code="rm x"), say("Well.")) as (_, model):
        one = await stages(model)
        tools = (RUN_PYTHON, RUN_SHELL, replace(RUN_PYTHON, name="other"))
        result = await one.run(tools=tools, policy="allow", rules=("deny run_shell",))
    assert [(denied.tool_name, denied.state) for denied in result.tool_calls] == [("run_shell", "denied")]
    assert one.executor.ran == []
