"""A LangGraph graph written by hand around the openai client, as its documentation shows it."""

import operator
from pathlib import Path
from typing import Annotated, Any, TypedDict

import orjson
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.config import get_stream_writer
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, interrupt
from openai import AsyncOpenAI

from benchmarks.contenders.base import PROBE_WIRE, Contender, history, probe, user_text


class State(TypedDict):
    messages: Annotated[list[dict[str, Any]], operator.add]
    model: str
    asks: bool


class LangGraphOpenAI(Contender):
    def __init__(self, base_url: str, directory: Path) -> None:
        super().__init__(base_url, directory)
        self._fresh = 0

    async def open(self) -> None:
        self._openai = AsyncOpenAI(base_url=self.base_url, api_key="none", max_retries=0)
        self._saver_context = AsyncSqliteSaver.from_conn_string(str(self.directory / "checkpoints.sqlite"))
        graph = StateGraph(State)
        graph.add_node("model", self._model)
        graph.add_node("tools", self._tools)
        graph.add_edge(START, "model")
        graph.add_conditional_edges("model", lambda state: "tools" if "tool_calls" in state["messages"][-1] else END)
        graph.add_edge("tools", "model")
        self._graph = graph.compile(checkpointer=await self._saver_context.__aenter__())

    async def close(self) -> None:
        await self._saver_context.__aexit__(None, None, None)
        await self._openai.close()

    async def _model(self, state: State) -> dict[str, Any]:
        write = get_stream_writer()
        texts: list[str] = []
        calls: list[dict[str, Any]] = []
        stream = await self._openai.chat.completions.create(
            model=state["model"],
            messages=state["messages"],
            tools=[PROBE_WIRE],
            stream=True,
        )
        async for chunk in stream:
            if not chunk.choices:
                continue
            delta = chunk.choices[0].delta
            if delta.content:
                texts.append(delta.content)
                write(delta.content)
            for piece in delta.tool_calls or ():
                if piece.id:
                    function = {"name": piece.function.name, "arguments": ""}
                    calls.append({"id": piece.id, "type": "function", "function": function})
                calls[-1]["function"]["arguments"] += piece.function.arguments or ""
        message: dict[str, Any] = {"role": "assistant", "content": "".join(texts)}
        return {"messages": [message | {"tool_calls": calls} if calls else message]}

    async def _tools(self, state: State) -> dict[str, Any]:
        calls = state["messages"][-1]["tool_calls"]
        if state["asks"]:
            interrupt(calls)
        results = [(call["id"], await probe(**orjson.loads(call["function"]["arguments"]))) for call in calls]
        return {"messages": [{"role": "tool", "tool_call_id": name, "content": result} for name, result in results]}

    async def _to_end(self, request: Any, conversation: str) -> int:
        config = {"configurable": {"thread_id": conversation}, "recursion_limit": 10_000}
        return sum([len(text) async for text in self._graph.astream(request, config, stream_mode="custom")])

    async def _prompt(self, text: str, conversation: str, model: str) -> int:
        messages = [{"role": "user", "content": text}]
        return await self._to_end({"messages": messages, "model": model, "asks": False}, conversation)

    async def answer(self, model: str) -> int:
        self._fresh += 1
        return await self._prompt("Go", f"answer {self._fresh}", model)

    async def steps(self, model: str) -> None:
        self._fresh += 1
        await self._prompt("Go", f"steps {self._fresh}", model)

    async def turn(self, conversation: str, model: str) -> None:
        await self._prompt(user_text(), conversation, model)

    async def pause(self, conversation: str, model: str, messages: int, prompt: str | None = None) -> None:
        await self._to_end({"messages": history(messages, prompt), "model": model, "asks": True}, conversation)

    async def approve(self, conversation: str) -> None:
        await self._to_end(Command(resume=True), conversation)
