"""The graph: a model node, one task per tool call, and back to the model when every call has its outcome.

    START -> model -> (one `call` per tool call, at the same time) -> model -> ... -> END

A step with many calls gives several to each `call` node: LangGraph prepares all nodes of a superstep at once, at
0.13 ms each, which blocks the event loop.

A run that continues after a restart enters at the calls that its last step left open. Where all calls of a step started
with the model's turn, because policy allows them, the nodes would only wait; where there is one call, nothing goes on
beside it. In both cases the model node carries the step out itself and asks the model again, which saves two
supersteps, a sixth of the step's Python. LangGraph's stream of updates does not show such a step; the log's events do.

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


class Calls(TypedDict):
    """The state: the calls at which the run enters, or those of one `call` node."""

    calls: list[str]


@dataclass(frozen=True, slots=True)
class GraphContext:
    """The nodes' shared context. It is passed through and never written to the state."""

    run: ActiveRun


MOST_NODES = 50
"""In one superstep."""


@cache
def run_graph() -> "CompiledStateGraph[Calls, GraphContext, Calls, Calls]":
    """Compile the graph. The first call imports LangGraph, which takes about half a second: call it in a thread."""
    from langgraph.graph import END, START, StateGraph
    from langgraph.runtime import Runtime
    from langgraph.types import Command, Send

    def sends(calls: list[str]) -> list[Send]:
        nodes = min(len(calls), MOST_NODES)
        return [Send("call", Calls(calls=calls[number::nodes])) for number in range(nodes)]

    async def enter(state: Calls) -> list[Send] | str:
        return sends(state["calls"]) or "model"

    async def model(state: Calls, runtime: Runtime[GraphContext]) -> Command[str]:  # noqa: ARG001 (LangGraph names it)
        run = runtime.context.run
        while calls := await call_model(run):
            if len(calls) > 1 and not run.calls.are_started(calls):
                return Command(goto=sends(calls))
            for tool_call_id in calls:
                await run_tool_call(run, tool_call_id)
        return Command(goto=END)

    async def call(state: Calls, runtime: Runtime[GraphContext]) -> None:
        await run_tool_calls(runtime.context.run, state["calls"])

    graph = StateGraph(Calls, context_schema=GraphContext)
    graph.add_node("model", model, destinations=("call", END))
    graph.add_node("call", call)
    graph.add_conditional_edges(START, enter, ["call", "model"])
    graph.add_edge("call", "model")
    return graph.compile()


async def compiled() -> "CompiledStateGraph[Calls, GraphContext, Calls, Calls]":
    return run_graph() if run_graph.cache_info().currsize else await asyncio.to_thread(run_graph)


async def run_to_end(run: ActiveRun) -> None:
    """Loop until the model asks for no more calls, or the run is stopped or fails."""
    graph = await compiled()
    entry = list(run.calls.of_step)
    while run.inbox.is_open:
        # A step is two supersteps at most; the run's own budget limits them.
        await graph.ainvoke({"calls": entry}, context=GraphContext(run), config={"recursion_limit": 1_000_000})
        # A message that arrived with the end of the answer is still passed to the model.
        if not run.inbox or run.is_ending:
            run.inbox.close()
        entry = []
