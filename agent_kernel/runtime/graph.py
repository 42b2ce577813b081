"""The graph: a model node, one task per tool call, and back to the model when every call has its outcome.

    START -> model -> (one `call` per tool call, at the same time) -> model -> ... -> END

A step with many calls gives several to each `call` node: LangGraph prepares all nodes of a superstep at once, at
0.13 ms each, which blocks the event loop.

A run that continues after a restart enters at the calls that its last step left open. Where all calls of a step started
with the model's turn, because policy allows them, the nodes would only wait; the model node waits itself instead, which
saves every second superstep.

The graph only routes. Its state holds the ids of the calls at which it enters; messages, arguments and outcomes are in
the log, so there is nothing to checkpoint and nothing that could disagree with the log. The model node returns its
successor itself: a conditional edge costs a third more per step, and a thread hop where it is no coroutine.
"""

import asyncio
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, TypedDict

from agent_kernel.runtime.state.run import ActiveRun
from agent_kernel.runtime.tool_calls.tool_call import run_tool_call, run_tool_calls
from agent_kernel.runtime.turns.model_turn import call_model

if TYPE_CHECKING:
    from langgraph.graph.state import CompiledStateGraph


class RunState(TypedDict):
    calls: list[str]
    """The calls at which the run enters."""


@dataclass(frozen=True, slots=True)
class GraphContext:
    """The nodes' shared context. It is passed through and never written to the state."""

    run: ActiveRun


class CallState(TypedDict):
    calls: list[str]


MOST_NODES = 50
"""In one superstep."""


@cache
def run_graph() -> "CompiledStateGraph[RunState, GraphContext, RunState, RunState]":
    """Compile the graph. The first call imports LangGraph, which takes about half a second: call it in a thread."""
    from langgraph.graph import END, START, StateGraph
    from langgraph.runtime import Runtime
    from langgraph.types import Command, Send

    def sends(calls: list[str]) -> list[Send]:
        nodes = min(len(calls), MOST_NODES)
        return [Send("call", CallState(calls=calls[number::nodes])) for number in range(nodes)]

    async def enter(state: RunState) -> list[Send] | str:
        return sends(state["calls"]) or "model"

    async def model(state: RunState, runtime: Runtime[GraphContext]) -> Command[str]:  # noqa: ARG001 (LangGraph names it)
        run = runtime.context.run
        calls = await call_model(run)
        if calls and run.calls.are_started(calls):
            for tool_call_id in calls:
                await run_tool_call(run, tool_call_id)
            return Command(goto="model")
        return Command(goto=sends(calls) or END)

    async def call(state: CallState, runtime: Runtime[GraphContext]) -> None:
        await run_tool_calls(runtime.context.run, state["calls"])

    graph = StateGraph(RunState, context_schema=GraphContext)
    graph.add_node("model", model, destinations=("call", "model", END))
    graph.add_node("call", call)
    graph.add_conditional_edges(START, enter, ["call", "model"])
    graph.add_edge("call", "model")
    return graph.compile()


async def compiled() -> "CompiledStateGraph[RunState, GraphContext, RunState, RunState]":
    return run_graph() if run_graph.cache_info().currsize else await asyncio.to_thread(run_graph)


async def run_to_end(run: ActiveRun) -> None:
    """Loop until the model asks for no more calls, or the run is stopped or fails."""
    graph = await compiled()
    entry = list(run.calls.of_step)
    while run.inbox.is_open:
        # Each step is two supersteps; the run's own budget limits them.
        await graph.ainvoke({"calls": entry}, context=GraphContext(run), config={"recursion_limit": 1_000_000})
        # A message that arrived with the end of the answer is still passed to the model.
        if not run.inbox or run.is_ending or run.suspended:
            run.inbox.close()
        entry = []
