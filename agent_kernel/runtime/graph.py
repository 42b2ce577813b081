"""The graph: a model node, a tools node for each tool call, and back to the model when every call has its outcome.

    START -> model -> tools (one per tool call, at the same time) -> model -> ... -> END

A run that continues after a restart enters at the tool calls that its last step left open.

The graph only routes. Its state holds the ids of the step's tool calls; messages, arguments and outcomes are in the
log, so there is nothing to checkpoint and nothing that could disagree with the log.

Importing this module imports LangGraph, which takes about half a second: do it when a run begins, in a thread.
"""

from dataclasses import dataclass
from typing import TypedDict

from langgraph.graph import END, START, StateGraph
from langgraph.runtime import Runtime
from langgraph.types import Send

from agent_kernel.runtime.state.active_run import ActiveRun
from agent_kernel.runtime.tool_calls.tool_call import run_tool_call
from agent_kernel.runtime.turns.model_turn import call_model


class State(TypedDict):
    tool_calls: list[str]
    """The ids of the step's calls."""


class ToolCallState(TypedDict):
    """The state of one tools node."""

    tool_call_id: str


@dataclass(frozen=True, slots=True)
class Context:
    """What the nodes share. It is passed through and never written to the state."""

    run: ActiveRun


async def model(state: State, runtime: Runtime[Context]) -> State:  # noqa: ARG001 (LangGraph passes it)
    return State(tool_calls=await call_model(runtime.context.run))


async def tools(state: ToolCallState, runtime: Runtime[Context]) -> None:
    await run_tool_call(runtime.context.run, state["tool_call_id"])


# The edges are coroutines because LangGraph would call functions in a thread.


async def enter(state: State) -> list[Send] | str:
    return _to_tools(state) or "model"


async def should_continue(state: State, runtime: Runtime[Context]) -> list[Send] | str:
    run = runtime.context.run
    if state["tool_calls"]:
        return _to_tools(state)
    if run.inbox and not run.is_ending:
        return "model"  # a message arrived with the end of the answer
    run.inbox_is_open = False
    return END


def _to_tools(state: State) -> list[Send]:
    return [Send("tools", ToolCallState(tool_call_id=tool_call_id)) for tool_call_id in state["tool_calls"]]


builder = StateGraph(State, context_schema=Context)
builder.add_node("model", model)
builder.add_node("tools", tools)
builder.add_conditional_edges(START, enter, ["model", "tools"])
builder.add_conditional_edges("model", should_continue, ["model", "tools", END])
builder.add_edge("tools", "model")
graph = builder.compile()


async def run_to_end(run: ActiveRun) -> None:
    """Go on until the model asks for no more calls, or the run is stopped or fails."""
    entry = State(tool_calls=list(run.calls.of_step))
    # The run's budget limits its steps.
    await graph.ainvoke(entry, context=Context(run), config={"recursion_limit": 1_000_000})
