"""A call is of the tool that its name means, whatever models and servers write around the name."""

from dataclasses import replace
from typing import Any

import pytest

from agent_kernel.log.message_rows import read_messages
from agent_kernel.protocol.commands import Decision
from agent_kernel.protocol.events import ToolStateEvent
from agent_kernel.testing import call, say
from agent_kernel.tools.registry import ToolRegistry
from tests.core.models.model_apis import WireApi, each_api
from tests.core.models.model_fixtures import connected
from tests.core.runtime.runtime_fixtures import LOOK, RUN_PYTHON, Stages

RUN_SHELL = replace(RUN_PYTHON, name="run_shell")
WRITTEN = "functions.run_python<|channel|>commentary"


@pytest.mark.parametrize(
    ("name", "tool"),
    [
        ("run_python", "run_python"),
        (" run_python\n", "run_python"),
        ("run_python<|channel|>commentary", "run_python"),
        ("<|channel|>commentary<|message|>run_python", "run_python"),
        ("functions.run_python", "run_python"),
        ("functions.run_python:0 ", "run_python"),
        (WRITTEN, "run_python"),
        # A tool's own name, though another one begins or ends so.
        ("functions", "functions"),
        ("functions.look", "look"),
        # Two tools, or none.
        ("run_python<|channel|>look", "run_python<|channel|>look"),
        ("run_pythonic", "run_pythonic"),
        ("my.run_python", "my.run_python"),
        ("Run_Python", "Run_Python"),
        ("", ""),
    ],
)
def test_the_tool_that_a_name_means(name: str, tool: str) -> None:
    names = ("look", "functions", "functions_look")
    registry = ToolRegistry([RUN_PYTHON, *(replace(LOOK, name=one) for one in names)])
    assert registry.meant(name) == tool


@each_api
async def test_cards_the_history_and_the_kernel_have_the_tools_name_and_the_log_has_the_models(
    api: WireApi, stages: Stages
) -> None:
    async with connected(call(WRITTEN, call_id="a", code="1"), say("Done."), api=api) as (server, model):
        one = await stages(model)
        handle = await one.start()
        [request] = await one.requests()
        await one.conversation.route_decision(request.approval_id, Decision(approved=True))
        result = await handle.wait()
    assert (result.text, result.run.error) == ("Done.", None)
    assert (request.tool_name, request.tool_input) == ("run_python", '{"code":"1"}')
    assert [ran.tool_name for ran in one.executor.ran] == ["run_python"]
    assert {event.tool_name for event in one.of(ToolStateEvent) if event.tool_name} == {"run_python"}
    assert "run_python" in str(server.requests[-1].body)
    assert "functions" not in str(server.requests[-1].body)
    bodies: list[dict[str, Any]] = [body for *_, body in await one.log.read(lambda sql: list(read_messages(sql, 1)))]
    assert [body["raw_names"] for body in bodies if "raw_names" in body] == [{"a": WRITTEN}]


@pytest.mark.parametrize("name", ["functions.run_shell", "run_shell<|channel|>commentary", " run_shell"])
async def test_rules_are_judged_on_the_tools_name(stages: Stages, name: str) -> None:
    async with connected(call(name, call_id="a", code="rm x"), say("Well.")) as (_, model):
        one = await stages(model)
        tools = (RUN_PYTHON, RUN_SHELL, replace(RUN_PYTHON, name="other"))
        result = await one.run(tools=tools, policy="allow", rules=("deny run_shell",))
    [denied] = result.tool_calls
    assert (denied.tool_name, denied.state) == ("run_shell", "denied")
    assert one.executor.ran == []
