"""Calls of MCP servers' tools in a run: without a kernel, bound to a definition, and in a replay without the server."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agent_kernel.models.base import ModelItem, ModelRequest
from agent_kernel.models.recordings.format import load
from agent_kernel.models.recordings.player import RecordedModel
from agent_kernel.protocol.calls import ApprovedCall, Outcome
from agent_kernel.protocol.commands import Decision
from agent_kernel.protocol.events import ToolCompleteEvent
from agent_kernel.protocol.tools import ToolDeclaration
from agent_kernel.testing import ScriptedModel, call, calls, record, say
from agent_kernel.tools.executor import Ask, OutputSink
from agent_kernel.tools.server_tools import declared
from tests.core.runtime.runtime_fixtures import YES, InterruptibleExecutor, Stages

SEARCH = call("docs__search0", query="x")
OBJECT: dict[str, Any] = {"type": "object", "properties": {"query": {"type": "string"}}}


class Servers:
    """Servers whose tools answer with what they were asked."""

    def __init__(self, count: int = 1) -> None:
        self.tools = [declared("docs", f"search{n}", f"Searches {n}.", OBJECT) for n in range(count)]
        self.late: list[ToolDeclaration] = []
        """Of servers that come up when the run has begun."""
        self.called: list[str] = []
        self.of_folder: dict[str, Any] | None = None
        self.of_folder_fault: Exception | None = None
        self.decided: list[bool] = []

    async def offered(self, notebook_path: str | None, *, wait: bool = True) -> Sequence[ToolDeclaration]:
        return self.tools if wait else [*self.tools, *self.late]

    async def unallowed(self, notebook_path: str | None) -> dict[str, Any] | None:
        if self.of_folder_fault is not None:
            raise self.of_folder_fault
        return self.of_folder

    async def decide(self, arguments: dict[str, Any], notebook_path: str | None, *, allowed: bool) -> tuple[bool, str]:
        self.decided.append(allowed)
        return False, "Started."

    async def call(
        self, call: ApprovedCall, tool: ToolDeclaration, notebook_path: str | None, emit: OutputSink, ask: Ask
    ) -> Outcome:
        self.called.append(tool.name)
        if "wait" in call.arguments_json:
            await asyncio.Event().wait()
        return Outcome("success", f"{notebook_path}: {call.arguments_json}")


@pytest.mark.parametrize("searched", [False, True])
async def test_a_replay_has_the_results_and_needs_no_server(stages: Stages, tmp_path: Path, searched: bool) -> None:
    path = tmp_path / "run.jsonl"
    turns = [call("docs__search0", query="pandas")]
    if searched:
        found = call("call_tool", name="docs__search0", arguments={"query": "pandas"})
        turns = [call("find_tools", query="search"), found]
    servers = Servers(60 if searched else 1)
    live = await stages(record(path, ScriptedModel([*turns, say("Found.")])), server_tools=servers)
    then = await live.run("Go", YES)
    assert servers.called == ["docs__search0"]

    replay = await stages(RecordedModel(load(path), name="replay"))
    now = await replay.run()
    assert (now.run.status, now.text) == ("complete", "Found."), now.run.error
    shown = [[(one.tool_name, one.result, one.state) for one in run.tool_calls] for run in (then, now)]
    assert shown[0] == shown[1]


async def test_a_call_of_a_server_does_not_wait_for_the_kernel(stages: Stages) -> None:
    executor, both = InterruptibleExecutor(), calls(call("run_python", code="1"), SEARCH)
    stage = await stages([both, say("Done.")], executor=executor, server_tools=Servers())
    handle = await stage.start(policy="allow")
    await stage.until_runs()
    await stage.until(lambda: [one for one in stage.of(ToolCompleteEvent) if one.tool_name == "docs__search0"])
    await executor.interrupt(executor.ran[0].approval_id)
    assert [one.state for one in (await handle.wait()).tool_calls] == ["cancelled", "success"]


async def test_servers_of_a_folder_start_by_no_rule_but_one_that_a_person_saved_for_the_file(stages: Stages) -> None:
    servers = Servers()
    servers.of_folder = {"file": ".mcp.json", "sha256": "0" * 64, "servers": "ours: npx ours"}
    stage = await stages([say("One."), say("Two."), say("Three.")], server_tools=servers)
    run = await stage.run(rules=("allow *",), policy="allow")
    [waiting] = run.tool_calls
    assert (waiting.tool_name, waiting.state, servers.decided) == ("start_mcp_servers", "awaiting_approval", [])
    await stage.decide(Decision(approved=True, scope="conversation"))
    again = await stage.run()  # as after a restart of the server
    assert [(one.state, one.by) for one in again.tool_calls] == [("success", "policy")]
    assert servers.decided == [True, True]
    servers.of_folder["sha256"] = "1" * 64
    changed = await stage.run()
    assert [one.state for one in changed.tool_calls] == ["awaiting_approval"]


async def test_later_requests_have_the_tools_of_servers_that_came_up_meanwhile(stages: Stages) -> None:
    servers = Servers()
    stage = await stages([SEARCH, call("slow__look", query="b"), say("Done.")], server_tools=servers)
    handle, _ = await stage.asking(server_tools=("docs.*", "slow.*", "docs.srch0"))
    servers.late = [declared(server, "look", "Looks.", OBJECT) for server in ("slow", "other")]
    servers.late.append(replace(servers.tools[0], description="Another one."))
    await stage.approve()
    await stage.approve(2)  # it asks as any
    run = await handle.wait()
    assert servers.called == ["docs__search0", "slow__look"]
    offered = [[tool["function"]["name"] for tool in request.tools] for request in stage.model.requests]
    assert ["slow__look" in names for names in offered] == [False, True, True]
    assert not any("other__look" in names for names in offered)
    [notice] = run.run.notices
    assert notice.content == "No tool of an MCP server fits slow.*, docs.srch0. There are: docs.* (1)."
    assert "slow__look" in [tool.name for tool in await stage.conversation.tools()]


async def test_a_call_that_never_answers_is_ended_by_its_time_limit(stages: Stages) -> None:
    turns = [call("docs__search0", query="wait"), say("It took too long.")]
    stage = await stages(turns, server_tools=Servers(), tool_timeouts={"docs__search0": 0.05})
    [one] = (await stage.run(policy="allow")).tool_calls
    why = "Error: Timed out after 0.05 s.\nThe server was told to stop; what it had done by then is not known."
    assert (one.state, one.result) == ("error", why)


async def test_plan_denies_and_a_rule_by_hand_allows(stages: Stages) -> None:
    stage = await stages([SEARCH, say("No."), SEARCH, say("Yes.")], server_tools=Servers())
    [one] = (await stage.run(policy="plan")).tool_calls
    assert one.state == "denied"
    [one] = (await stage.run(rules=("allow docs__search0",))).tool_calls
    assert (one.state, one.by) == ("success", "policy")


async def test_a_stored_outcome_is_not_given_again_once_a_server_has_defined_its_tool_otherwise(stages: Stages) -> None:
    servers = Servers()

    async def redefined(_: ModelRequest) -> AsyncGenerator[ModelItem, None]:
        servers.tools = [declared("docs", "search0", "Deletes 0.", OBJECT)]
        yield SEARCH

    stage = await stages([SEARCH, SEARCH, redefined, say("Done.")], server_tools=servers)
    result = await stage.run(policy="allow", server_cache=("docs__search0",))
    assert [one.cached_at is not None for one in result.tool_calls] == [False, True, False]
    assert servers.called == ["docs__search0"] * 2
