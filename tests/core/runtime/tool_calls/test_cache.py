"""Stored outcomes of read-only calls: when one is given again, and never when a run without them had another."""

import asyncio
import json
import uuid
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_kernel.protocol.calls import ApprovedCall, Outcome
from agent_kernel.protocol.events import ToolCompleteEvent
from agent_kernel.protocol.tools import MOST_SECONDS, ToolDeclaration
from agent_kernel.protocol.views import ToolCallView
from agent_kernel.testing import ScriptedModel, call, calls, say
from agent_kernel.tools.builtin.declarations import BUILTIN_TOOLS
from tests.core.runtime.runtime_fixtures import RUN_PYTHON, FunctionExecutor, Stage, Stages
from tests.core.runtime.runtime_fixtures import stage as make_stage
from tests.waiting import look_until

READ = ToolDeclaration(
    "read",
    "Read.",
    {"type": "object", "properties": {"key": {"type": "string"}, "other": {"type": "string"}}},
    approval="allow",
    read_only=True,
    cache_seconds=MOST_SECONDS,
)
A, B = call("read", key="a"), call("read", key="b")


class Kernel(FunctionExecutor):
    """Counts what it reads; its version is another one after a call that is not read-only, as a kernel's is."""

    def __init__(self) -> None:
        super().__init__(self._count)

    async def execute(self, call: ApprovedCall, emit: Any) -> Outcome:
        if call.tool_name != "read":
            self.version = f"after {call.approval_id}"
        return await super().execute(call, emit)

    def _count(self, call: ApprovedCall, emit: Any) -> Outcome:
        return Outcome("success", f"{call.tool_name} {len(self.ran)}")


async def go(stage: Stage, *turns: Any, read: ToolDeclaration = READ, **spec: Any) -> list[ToolCallView]:
    """The calls of a run with these turns."""
    with ScriptedModel([*turns, say("Done.")]) as model:
        stage.use(model)
        return (await stage.run(**{"tools": (RUN_PYTHON, read), "policy": "allow"} | spec)).tool_calls


def texts(calls: list[ToolCallView]) -> list[str]:
    return [str(one.result).split("\n")[-1] for one in calls]


@pytest.fixture
async def stage(stages: Stages) -> Stage:
    return await stages(ScriptedModel([]), executor=Kernel())


async def test_the_same_arguments_give_the_stored_outcome_which_says_so_everywhere(stage: Stage) -> None:
    first, second, other = await go(stage, call("read", key="a", other="x"), call("read", other="x", key="a"), B)
    assert [ran.tool_call_id for ran in stage.executor.ran] == [first.tool_call_id, other.tool_call_id]
    assert (first.result, first.cached_at) == ("read 1", None)
    assert (other.result, other.cached_at) == ("read 2", None)
    assert second.result == "Stored outcome of 0 minutes ago. Nothing ran.\nread 1"
    assert (second.state, second.by, second.duration_ms) == ("success", "policy", None)
    assert str(first.started_at) <= str(second.cached_at) <= str(second.ended_at)
    shown = next(one for one in stage.of(ToolCompleteEvent) if one.tool_call_id == second.tool_call_id)
    assert (shown.cached_at, shown.tool_result) == (second.cached_at, second.result)
    (entry,) = [one for one in await stage.audit() if "cached_at" in one]
    assert (entry["kind"], entry["approval_id"], entry["state"]) == ("outcome", second.approval_id, "success")


async def test_a_change_of_a_cell_which_no_kernel_sees_drops_what_is_stored(stage: Stage) -> None:
    change = next(tool for tool in BUILTIN_TOOLS if tool.name == "insert_cell")
    stage.executor.version = "the same all the time"
    stage.executor.execute = partial(FunctionExecutor.execute, stage.executor)  # type: ignore[method-assign]
    found = await go(stage, A, A, call("insert_cell", source="1"), A, tools=(change, READ))
    assert [one.tool_name for one in found] == ["read", "read", "insert_cell", "read"]
    assert [one.cached_at is not None for one in found] == [False, True, False, False]


KEYS = st.sampled_from(["a", "b"])
READS = st.tuples(st.just("read"), KEYS, st.none())
WRITES = st.tuples(st.just("write"), KEYS, st.sampled_from(["1", "2", "raise"]))
RUNS = st.tuples(
    st.sampled_from(["first", "second"]),  # the conversation
    st.one_of(st.none(), WRITES),  # a cell before the run
    st.sampled_from([0.0, 0.0, 59.0, 61.0]),  # seconds before the run
    st.booleans(),  # whether the kernel says what has run
    st.lists(st.lists(st.one_of(READS, READS, WRITES), min_size=1, max_size=3), max_size=4),  # the calls of each step
)


class World(FunctionExecutor):
    """Values that calls read, and that cells and other calls change."""

    def __init__(self) -> None:
        super().__init__(self._act)
        self.values = {"a": "0", "b": "0"}
        self.answers = True

    def write(self, key: str, value: str) -> None:
        self.values[key] = value
        self.version = uuid.uuid4().hex

    async def state_version(self) -> str | None:
        return self.version if self.answers else None

    def _act(self, call: ApprovedCall, emit: Any) -> Outcome:
        arguments = json.loads(call.arguments_json)
        if call.tool_name == "run_python":
            self.write(*arguments["code"].split())
            return Outcome("success", "written")
        value = self.values[arguments["key"]]
        return Outcome("error" if value == "raise" else "success", value)


@settings(max_examples=30)
@given(st.lists(RUNS, max_size=4))
def test_no_call_has_an_outcome_that_it_would_not_have_had_without_the_cache(plan: list[Any]) -> None:
    asyncio.run(_carry_out(plan))


async def _carry_out(plan: list[Any]) -> None:
    world, now, expected = World(), 0.0, {"a": "0", "b": "0"}
    stage = await make_stage(ScriptedModel([]), executor=world)
    second = await stage.runtime.create_conversation(kernel_id="k", notebook_path="work/other.ipynb")
    conversations = {"first": stage.conversation, "second": second}
    for one in conversations.values():
        one.client_came()
        one._queue.outcomes._clock = lambda: now  # type: ignore[method-assign] -- the test's own time
    for name, cell, seconds, answers, steps in plan:
        stage.conversation, world.answers = conversations[name], answers
        now += seconds
        if cell is not None:
            world.write(*cell[1:])
            expected[cell[1]] = cell[2]
        turns = [calls(*(_as_call(one) for one in step)) for step in steps]
        found = await go(stage, *turns, read=replace(READ, cache_seconds=60.0))
        for (kind, key, value), one in zip((one for step in steps for one in step), found, strict=True):
            if kind == "write":
                expected[key] = value
            else:
                assert texts([one]) == [f"Error: {expected[key]}" if expected[key] == "raise" else expected[key]]
                assert one.cached_at is None or (answers and expected[key] != "raise")
    await stage.close()


def _as_call(step: tuple[str, str, str | None]) -> Any:
    kind, key, value = step
    return call("read", key=key) if kind == "read" else call("run_python", code=f"{key} {value}")


@pytest.mark.parametrize("kernel_id", ["k", "another", None], ids=["same kernel", "another kernel", "no kernel"])
async def test_no_other_conversation_has_an_outcome(stage: Stage, kernel_id: str | None) -> None:
    """So no other user: a conversation is of one kernel, whose version is the same here all the time."""
    await go(stage, A)
    mine = stage.conversation
    stage.conversation = await stage.runtime.create_conversation(kernel_id=kernel_id, notebook_path="work/test.ipynb")
    stage.conversation.client_came()
    assert [one.cached_at for one in await go(stage, A)] == [None]
    assert len(stage.executor.ran) == 2
    stage.conversation = mine
    assert [one.cached_at is not None for one in await go(stage, A)] == [True]


async def test_run_again_on_a_card_has_the_call_run(stage: Stage) -> None:
    _, given_again = await go(stage, A, A)
    with ScriptedModel([A, say("Done.")]) as model:
        stage.use(model)
        run_id = await stage.conversation.retry_call(given_again.tool_call_id)
        await stage.until(lambda: len(stage.of(ToolCompleteEvent)) == 3)
        await look_until(lambda: stage.conversation.has_ended(run_id))
    assert (stage.of(ToolCompleteEvent)[-1].cached_at, len(stage.executor.ran)) == (None, 2)
    assert [str(one.result) for one in await go(stage, A)] == ["Stored outcome of 0 minutes ago. Nothing ran.\nread 2"]
